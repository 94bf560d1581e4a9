// workerd, which runs the handler `test`.
import { run } from "./import.mjs";

export default {
  async test(_, env) {
    console.log(JSON.stringify(await run(env.ORIGIN)));
  },
};
