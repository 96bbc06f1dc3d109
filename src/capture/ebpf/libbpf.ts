/**
 * The functions of libbpf that the datapath uses, called through koffi. Both libraries are loaded only when a program is. Functions return what libbpf 1 does:
 * a negative errno, or null and `errno`.
 */
import { UsageError } from "../../base/errors.ts";
import { findLibc, type Libc } from "../source/interface/libc.ts";

/** Rights needed to load programs and to attach them; CAP_PERFMON for what the verifier forbids without it. */
export const NEEDED_RIGHTS = "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON";

/** An object, program or map of libbpf. */
export type Handle = unknown;

type Call = (...args: unknown[]) => never;

export interface Libbpf {
  libc: Libc;
  openFile(path: string): Handle | null;
  load(object: Handle): number;
  closeObject(object: Handle): void;
  nextProgram(object: Handle, before: Handle | null): Handle | null;
  programName(program: Handle): string;
  programFd(program: Handle): number;
  setAutoload(program: Handle, on: boolean): number;
  setLog(program: Handle, log: Uint8Array, bytes: number): number;
  findMap(object: Handle, name: string): Handle | null;
  mapFd(map: Handle): number;
  mapValueBytes(map: Handle): number;
  mapEntries(map: Handle): number;
  setEntries(map: Handle, entries: number): number;
  setValueBytes(map: Handle, bytes: number): number;
  setInitial(map: Handle, value: Uint8Array, bytes: number): number;
  lookup(fd: number, key: Uint8Array, value: Uint8Array): number;
  update(fd: number, key: Uint8Array, value: Uint8Array, flags: number): number;
  remove(fd: number, key: Uint8Array): number;
  /** `batch`: where the next call continues; `count`: number of entries that fit, then the number read. */
  lookupBatch(
    fd: number,
    before: Uint8Array | null,
    batch: Uint8Array,
    keys: Uint8Array,
    values: Uint8Array,
    count: Uint32Array,
    options: null,
  ): number;
  /** Like lookupBatch, and removes the entries read. */
  takeBatch: Libbpf["lookupBatch"];
  /** Attaches a program to the tracepoint that its own type names. */
  openTracepoint(name: null, program: number): number;
  /** Returns the names of an enum of the running kernel by value, or null if the kernel has none. */
  kernelEnum(name: string): Map<number, string> | null;
  createLink(program: number, target: number, type: number, options: Uint8Array): number;
  queryXdp(index: number, flags: number, options: Uint8Array): number;
  /** Queries one place of an interface: flags, program ids, and their number. */
  queryPrograms(
    index: number,
    type: number,
    flags: number,
    attached: Uint32Array,
    ids: Uint32Array,
    count: Uint32Array,
  ): number;
  testRun(program: number, options: Uint8Array): number;
  info(fd: number, info: Uint8Array, bytes: Uint32Array): number;
  enableStatistics(type: number): number;
  possibleCpus(): number;
}

const LIBRARY = "libbpf.so.1";

let loaded: Promise<Libbpf | string> | null = null;

/** Returns the library, or text that says what is missing. */
export function findLibbpf(): Promise<Libbpf | string> {
  loaded ??= find();
  return loaded;
}

export async function loadLibbpf(what: string): Promise<Libbpf> {
  const found = await findLibbpf();
  if (typeof found !== "string") return found;
  const hint = found.startsWith(LIBRARY)
    ? "apt install libbpf1 (Debian, Ubuntu), dnf install libbpf (Fedora)"
    : found.startsWith("koffi")
      ? "npm install -g koffi"
      : undefined;
  throw new UsageError("not-supported", `${what}: ${found}`, hint);
}

async function find(): Promise<Libbpf | string> {
  if (process.platform !== "linux") return `eBPF is a part of Linux (this is ${process.platform})`;
  const libc = await findLibc();
  if (!libc) return "koffi, which loads eBPF programs, is not installed";
  try {
    return await bind(libc);
  } catch {
    return `${LIBRARY}, which loads eBPF programs, is not installed`;
  }
}

async function bind(libc: Libc): Promise<Libbpf> {
  const { default: koffi } = await import("koffi");
  const library = koffi.load(LIBRARY);
  const call = (declaration: string) => library.func(declaration) as unknown as Call;
  // Silence libbpf's own log, which is for developers. Failures are reported here, with the verifier's log.
  call("void *libbpf_set_print(void *)")(null);
  const open = call("void *bpf_object__open_file(const char *, void *)");
  return {
    libc,
    openFile: (path) => open(path, null),
    load: call("int bpf_object__load(void *)"),
    closeObject: call("void bpf_object__close(void *)"),
    nextProgram: call("void *bpf_object__next_program(void *, void *)"),
    programName: call("const char *bpf_program__name(void *)"),
    programFd: call("int bpf_program__fd(void *)"),
    setAutoload: call("int bpf_program__set_autoload(void *, bool)"),
    setLog: call("int bpf_program__set_log_buf(void *, void *, size_t)"),
    findMap: call("void *bpf_object__find_map_by_name(void *, const char *)"),
    mapFd: call("int bpf_map__fd(void *)"),
    mapValueBytes: call("uint32 bpf_map__value_size(void *)"),
    mapEntries: call("uint32 bpf_map__max_entries(void *)"),
    setEntries: call("int bpf_map__set_max_entries(void *, uint32)"),
    setValueBytes: call("int bpf_map__set_value_size(void *, uint32)"),
    setInitial: call("int bpf_map__set_initial_value(void *, void *, size_t)"),
    lookup: call("int bpf_map_lookup_elem(int, void *, void *)"),
    update: call("int bpf_map_update_elem(int, void *, void *, uint64)"),
    remove: call("int bpf_map_delete_elem(int, void *)"),
    lookupBatch: call("int bpf_map_lookup_batch(int, void *, void *, void *, void *, void *, void *)"),
    takeBatch: call(
      "int bpf_map_lookup_and_delete_batch(int, void *, void *, void *, void *, void *, void *)",
    ),
    openTracepoint: call("int bpf_raw_tracepoint_open(const char *, int)"),
    kernelEnum: (name) => kernelEnum(call, (at, bytes) => new DataView(koffi.view(at as never, bytes)), name),
    createLink: call("int bpf_link_create(int, int, int, void *)"),
    queryXdp: call("int bpf_xdp_query(int, int, void *)"),
    queryPrograms: call("int bpf_prog_query(int, int, uint32, void *, void *, void *)"),
    testRun: call("int bpf_prog_test_run_opts(int, void *)"),
    info: call("int bpf_obj_get_info_by_fd(int, void *, void *)"),
    enableStatistics: call("int bpf_enable_stats(int)"),
    possibleCpus: call("int libbpf_num_possible_cpus()"),
  };
}

const BTF_KIND_ENUM = 6;

/** Reads an enum from BTF. struct btf_type: name u32, info u32 (count in the lower half), size u32; for an enum followed by pairs of name u32 and value i32. */
function kernelEnum(
  call: (declaration: string) => Call,
  view: (at: Handle, bytes: number) => DataView,
  name: string,
): Map<number, string> | null {
  const btf: Handle | null = call("void *btf__load_vmlinux_btf()")();
  if (btf === null) return null;
  try {
    const id: number = call("int btf__find_by_name_kind(void *, const char *, uint32)")(
      btf,
      name,
      BTF_KIND_ENUM,
    );
    const type: Handle | null = id > 0 ? call("void *btf__type_by_id(void *, uint32)")(btf, id) : null;
    if (type === null) return null;
    const count = view(type, 12).getUint32(4, true) & 0xffff;
    const values = view(type, 12 + 8 * count);
    const text = call("const char *btf__name_by_offset(void *, uint32)");
    const names = new Map<number, string>();
    for (let at = 12; at < 12 + 8 * count; at += 8)
      names.set(values.getInt32(at + 4, true), text(btf, values.getUint32(at, true)));
    return names;
  } finally {
    call("void btf__free(void *)")(btf);
  }
}
