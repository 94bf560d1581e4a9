// An inbox where agents wait for people:
//
//   npm start                                    on http://localhost:3000
//   PORT, HOST, INBOX_DATA, INBOX_PASSWORD       where, and who may
//
// With OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY set a real model works here (MODEL names which), else a stand-in.
// It may be stopped at any time, also by kill -9: the next start goes on where it was.

import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { Desk } from "./desk.ts";
import { chooseModel } from "./model.ts";
import { inboxServer } from "./server.ts";
import { openDoor } from "./session.ts";
import { openStore } from "./store.ts";
import { shopTools } from "./tools.ts";

const { env } = process;
const folder = resolve(env["INBOX_DATA"] ?? "data");
const store = await openStore(folder);
const door = await openDoor(folder, env["INBOX_PASSWORD"]);
const { call, name } = chooseModel(env);
const desk = new Desk(store, call, shopTools(folder, Number(env["TOOL_DELAY"] ?? 1500)));
const server = inboxServer(desk, door);

server.on("error", (error) => {
  console.error(error.message);
  process.exit(1);
});
// The port first: a second server that is started by mistake ends here, before it takes over what the first one runs.
server.listen(Number(env["PORT"] ?? 3000), env["HOST"] ?? "127.0.0.1", async () => {
  await desk.open();
  const { port } = server.address() as AddressInfo;
  console.log(`The inbox is at http://localhost:${port}, with ${name}.${env["INBOX_PASSWORD"] ? "" : ` The password is ${door.password}`}`);
});
