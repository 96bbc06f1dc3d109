/** Runs `hoptime observe` on a host of a lab, as a separate process. */
import { type NetworkLab, until } from "./namespaces.ts";

export interface ObserverProcess {
  /** Resolves when standard error contains this text. */
  says(text: string): Promise<void>;
  /** Ends it as Ctrl-C does and returns its output. */
  end(): Promise<{ out: string; err: string; code: number | null }>;
}

/** Resolves when it captures. */
export async function startObserver(
  lab: NetworkLab,
  host: string,
  program: string,
  ...args: string[]
): Promise<ObserverProcess> {
  const child = lab.start(host, process.execPath, program, "observe", ...args);
  let [out, err] = ["", ""];
  child.stdout?.on("data", (data) => {
    out += data;
  });
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  await new Promise<void>((resolve, reject) => {
    child.stderr?.on("data", (data) => {
      err += data;
      if (err.includes("observing")) resolve();
    });
    ended.then(() => reject(new Error(`observe ended: ${err}`)));
  });
  return {
    says: (text) => until(() => err.includes(text), `observe says '${text}'`),
    async end() {
      child.kill("SIGINT");
      const code = await ended;
      return { out, err, code };
    },
  };
}
