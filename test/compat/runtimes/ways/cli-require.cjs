// Node, Deno and Bun: `cli-require.cjs <origin>`.
require("./require.cjs").run(process.argv[2]).then((results) => console.log(JSON.stringify(results)));
