/** Checks whether eBPF programs can be tested here: koffi, libbpf, built objects, and the permission to load them. */
import { Datapath, findDatapath } from "../../src/capture/ebpf/datapath.ts";
import { findLibbpf } from "../../src/capture/ebpf/libbpf.ts";

/** Returns what is missing; null if nothing is. */
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
