// Node, Deno and Bun: `cli-import.mjs <origin>`.
import { argv } from "node:process";
import { run } from "./import.mjs";

console.log(JSON.stringify(await run(argv[2])));
