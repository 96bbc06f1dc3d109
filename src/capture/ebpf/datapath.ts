/**
 * A loaded object of datapath/: its programs verified by the kernel, its maps created, its constants set. Nothing is attached yet (see bpf-link.ts). Programs
 * and maps live as long as this is open and something is attached, and end with the process.
 */
import { UsageError } from "../../base/errors.ts";
import { findPackageFile } from "../../base/package-file.ts";
import { BpfMap } from "./bpf-map.ts";
import { type Handle, type Libbpf, loadLibbpf, NEEDED_RIGHTS } from "./libbpf.ts";

export interface DatapathPlan {
  /** The interface, for error messages. */
  what: string;
  /** Name of a file of datapath/ without its extension: `observe` is dist/datapath/observe.bpf.o. */
  object: string;
  /** Programs to load; other programs of the object are left out. */
  programs: readonly string[];
  /** Sections of constants (`.rodata.config`) with all of their bytes. The verifier treats them as known and removes code that they make unreachable. */
  constants?: Readonly<Record<string, Uint8Array>>;
  /** Number of entries of maps whose size depends on the plan. */
  entries?: Readonly<Record<string, number>>;
}

const LOG_BYTES = 1 << 20;
const EPERM = 1;
const EACCES = 13;
const ENOMEM = 12;
const E2BIG = 7;

/** Returns the path of a compiled object, or null if it was not built. */
export function findDatapath(object: string): string | null {
  return findPackageFile(`datapath/${object}.bpf.o`);
}

/** The hint for failures that no setting fixes. */
export const WITHOUT_EBPF = "observe without eBPF";

export class Datapath {
  readonly bpf: Libbpf;
  readonly #object: Handle;
  readonly #what: string;
  readonly #programs = new Map<string, number>();
  readonly #maps = new Map<string, BpfMap>();

  private constructor(bpf: Libbpf, object: Handle, what: string) {
    this.bpf = bpf;
    this.#object = object;
    this.#what = what;
  }

  /** Loads a plan. Throws a UsageError that says what is missing and what to do. */
  static async load(plan: DatapathPlan): Promise<Datapath> {
    const bpf = await loadLibbpf(plan.what);
    const path = findDatapath(plan.object);
    if (!path)
      throw new UsageError(
        "not-supported",
        `${plan.what}: the eBPF programs of this build are missing`,
        "install clang and libbpf-dev, and build again: npm run build",
      );
    const object = bpf.openFile(path);
    if (object === null) throw new Error(`${path}: libbpf cannot read it (errno ${bpf.libc.errno()})`);
    const datapath = new Datapath(bpf, object, plan.what);
    try {
      datapath.#load(plan);
      return datapath;
    } catch (error) {
      datapath.close();
      throw error;
    }
  }

  /** Returns the file descriptor of a program of the plan. */
  program(name: string): number {
    const fd = this.#programs.get(name);
    if (fd === undefined) throw new Error(`program ${name} was not loaded`);
    return fd;
  }

  map(name: string): BpfMap {
    const known = this.#maps.get(name);
    if (known) return known;
    const map = new BpfMap(this.bpf, this.#find(name));
    this.#maps.set(name, map);
    return map;
  }

  /** Closes this side. Attached programs stay loaded until their attachment is closed too. */
  close(): void {
    for (const map of this.#maps.values()) map.close();
    this.#maps.clear();
    this.bpf.closeObject(this.#object);
  }

  #find(name: string): Handle {
    const map = this.bpf.findMap(this.#object, name);
    if (map === null) throw new Error(`no map ${name}`);
    return map;
  }

  #load({ programs, constants = {}, entries = {} }: DatapathPlan): void {
    const { bpf } = this;
    const log = new Uint8Array(LOG_BYTES);
    const wanted: [name: string, program: Handle][] = [];
    for (let at = bpf.nextProgram(this.#object, null); at !== null; at = bpf.nextProgram(this.#object, at)) {
      const name = bpf.programName(at);
      const on = programs.includes(name);
      bpf.setAutoload(at, on);
      if (!on) continue;
      bpf.setLog(at, log, log.length);
      wanted.push([name, at]);
    }
    for (const [name, bytes] of Object.entries(constants)) {
      const outcome = bpf.setInitial(this.#find(name), bytes, bytes.length);
      if (outcome !== 0) throw new Error(`${name} does not have ${bytes.length} bytes (errno ${-outcome})`);
    }
    for (const [name, count] of Object.entries(entries)) {
      const outcome = bpf.setEntries(this.#find(name), count);
      if (outcome !== 0) throw new Error(`${name} cannot have ${count} entries (errno ${-outcome})`);
    }
    const outcome = bpf.load(this.#object);
    if (outcome !== 0) throw this.#refusal(-outcome, textOf(log));
    for (const [name, program] of wanted) this.#programs.set(name, bpf.programFd(program));
  }

  #refusal(errno: number, log: string): Error {
    // EACCES is also the verifier's answer; then its log is not empty. Without CAP_PERFMON it forbids arithmetic on addresses.
    if (errno === EPERM || (errno === EACCES && (log === "" || log.includes("for !root"))))
      return new UsageError(
        "not-supported",
        `${this.#what}: no permission to load eBPF programs`,
        NEEDED_RIGHTS,
      );
    if (errno === ENOMEM || errno === E2BIG)
      return new UsageError(
        "out-of-memory",
        `${this.#what}: the kernel has no memory for the maps of the eBPF programs`,
        "use smaller parameters of the estimators",
      );
    const why = log.trim().split("\n").slice(-3).join("; ");
    return new UsageError(
      "not-supported",
      `${this.#what}: this kernel refuses the eBPF programs (errno ${errno}${why === "" ? "" : `: ${why}`})`,
      WITHOUT_EBPF,
    );
  }
}

function textOf(log: Uint8Array): string {
  const end = log.indexOf(0);
  return new TextDecoder().decode(log.subarray(0, end < 0 ? log.length : end));
}
