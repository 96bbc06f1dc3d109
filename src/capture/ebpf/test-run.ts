/** Runs a program on a frame without an interface (BPF_PROG_TEST_RUN), for tests and benchmarks, and reads the kernel's statistics of a program's runs. */
import type { Libbpf } from "./libbpf.ts";

/** Size and offsets of struct bpf_test_run_opts. */
const OPTIONS_BYTES = 80;
const DATA_IN = 8;
const DATA_IN_BYTES = 24;
const CONTEXT = 32;
const CONTEXT_BYTES = 48;
const RETVAL = 56;
const REPEAT = 60;
const DURATION = 64;
const FLAGS = 68;
const BATCH = 76;
const LIVE_FRAMES = 2;
/** Size of struct xdp_md: data, data_end, data_meta, ingress_ifindex, two more. */
const XDP_CONTEXT_BYTES = 24;
/** Size of struct bpf_prog_info and offsets of the fields read. */
const INFO_BYTES = 224;
const RUN_TIME = 192;
const RUNS = 200;

export interface TestRunOptions {
  repeat?: number;
  /** XDP programs only: frames go where the program sends them, as if the interface with this index had received them. Serves as a packet generator. */
  liveFrames?: { ingress: number; batch?: number };
}

export interface TestRun {
  retval: number;
  /** Average duration of one run. */
  durationNs: number;
}

export function testRun(
  bpf: Libbpf,
  program: number,
  frame: Uint8Array,
  { repeat = 1, liveFrames }: TestRunOptions = {},
): TestRun {
  const data = outside(frame.length);
  data.set(frame);
  const options = new Uint8Array(OPTIONS_BYTES);
  const view = new DataView(options.buffer);
  view.setBigUint64(0, BigInt(OPTIONS_BYTES), true);
  view.setBigUint64(DATA_IN, bpf.libc.addressOf(data), true);
  view.setUint32(DATA_IN_BYTES, frame.length, true);
  view.setInt32(REPEAT, repeat, true);
  if (liveFrames) {
    const context = outside(XDP_CONTEXT_BYTES);
    context.writeUInt32LE(frame.length, 4);
    context.writeUInt32LE(liveFrames.ingress, 12);
    view.setBigUint64(CONTEXT, bpf.libc.addressOf(context), true);
    view.setUint32(CONTEXT_BYTES, XDP_CONTEXT_BYTES, true);
    view.setUint32(FLAGS, LIVE_FRAMES, true);
    view.setUint32(BATCH, liveFrames.batch ?? 0, true);
  }
  const outcome = bpf.testRun(program, options);
  if (outcome !== 0) throw new Error(`BPF_PROG_TEST_RUN: errno ${-outcome}`);
  return { retval: view.getUint32(RETVAL, true), durationNs: view.getUint32(DURATION, true) };
}

/** Returns memory outside the JavaScript heap, whose address does not change. */
function outside(bytes: number): Buffer {
  return Buffer.allocUnsafeSlow(Math.max(4096, bytes)).fill(0);
}

/** Returns the number of runs of a program and the time they took; counted only while statistics are on. */
export function runsOf(bpf: Libbpf, program: number): { runs: number; timeNs: number } {
  const info = new Uint8Array(INFO_BYTES);
  const outcome = bpf.info(program, info, new Uint32Array([INFO_BYTES]));
  if (outcome !== 0) throw new Error(`asking for a program: errno ${-outcome}`);
  const view = new DataView(info.buffer);
  return { runs: Number(view.getBigUint64(RUNS, true)), timeNs: Number(view.getBigUint64(RUN_TIME, true)) };
}

/** Turns on statistics of runs until the returned function is called. */
export function countRuns(bpf: Libbpf): () => void {
  const fd = bpf.enableStatistics(0);
  if (fd < 0) throw new Error(`statistics of eBPF programs: errno ${-fd}`);
  return () => void bpf.libc.close(fd);
}
