/** An untidy folder to try the example on. */
export const SAMPLE: Readonly<Record<string, string>> = {
  ".DS_Store": "Bud1",
  "beach.jpg": "a picture of a beach",
  "sunset.jpg": "a picture of a sunset",
  "cat (1).jpg": "a picture of a cat",
  "pictures/cat.jpg": "a picture of a cat",
  "report copy.txt": "Everything is in order.\n",
  "taxes/report.txt": "Everything is in order.\n",
  "taxes/2025.txt": "Paid.\n",
  "invoice.txt": "March: 120.00\n",
  "draft.tmp": "half a sen",
  "letter.txt~": "Dear Sir\n",
  "empty.log": "",
  "untitled.md": "\n",
};
