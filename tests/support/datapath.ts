/** Whether eBPF programs can be tested here: koffi, libbpf, objects that were built, and the rights to load them. */
import { Datapath, findDatapath } from "../../src/capture/ebpf/datapath.ts";
import { findLibbpf } from "../../src/capture/ebpf/libbpf.ts";

/** Null where they can; else what is missing. */
export async function datapathMissing(object = "empty"): Promise<string | null> {
  const found = await findLibbpf();
  if (typeof found === "string") return found;
  if (!findDatapath(object)) return "the eBPF programs are not built: clang or libbpf-dev was missing";
  if (process.getuid?.() !== 0) return "root is needed";
  try {
    (await Datapath.load({ what: "test", object: "empty", programs: ["empty_xdp"] })).close();
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
