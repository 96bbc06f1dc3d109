/**
 * Captures an interface through a child process, tcpdump or dumpcap, and reads its output; used if koffi is not installed. These programs report dropped
 * packets when they end, if at all, so records do not count them.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { UsageError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";
import { CaptureReader, DEFAULT_COVER } from "../../reader.ts";
import { openStream } from "../byte-source.ts";
import { CaptureSource } from "../capture-source.ts";
import type { InterfaceSourceOptions } from "./interface-options.ts";
import { snapBytesOf } from "./interface-options.ts";

interface Program {
  name: string;
  args: (
    name: string,
    options: Required<Pick<InterfaceSourceOptions, "direction" | "promiscuous">>,
    snap: number,
  ) => string[];
  /** Matches what the program prints on standard error once it captures. */
  ready: RegExp;
}

const PROGRAMS: readonly Program[] = [
  {
    name: "tcpdump",
    args: (name, { direction, promiscuous }, snap) => [
      ...["-i", name, "-Q", direction === "both" ? "inout" : direction, "-s", String(snap)],
      ...["-n", "-U", "-B", "16384", "--time-stamp-precision=nano", "-w", "-"],
      ...(promiscuous ? [] : ["-p"]),
    ],
    ready: /listening on/,
  },
  {
    name: "dumpcap",
    args: (name, { promiscuous }, snap) => [
      ...["-i", name, "-s", String(snap), "-q", "-w", "-"],
      ...(promiscuous ? [] : ["-p"]),
    ],
    ready: /File:|Capturing on/,
  },
];

/** Starts a capture that ends with its signal. Returns null if no such program is installed. */
export async function openChildCapture(
  kernels: Kernels,
  name: string,
  options: InterfaceSourceOptions,
): Promise<CaptureSource | null> {
  const { direction = name === "lo" ? "in" : "both", promiscuous = false, timestamps, signal } = options;
  if (timestamps === "hardware")
    throw new UsageError(
      "not-supported",
      `${name}: hardware timestamps take the package koffi`,
      "npm install -g koffi",
    );
  const snap = snapBytesOf(options, DEFAULT_COVER);
  for (const program of PROGRAMS) {
    // dumpcap cannot capture one direction only.
    if (program.name === "dumpcap" && direction !== "both") continue;
    const child = await start(program, program.args(name, { direction, promiscuous }, snap), name);
    if (!child) continue;
    const end = () => child.kill("SIGINT");
    if (signal?.aborted) end();
    signal?.addEventListener("abort", end, { once: true });
    process.once("exit", end);
    child.once("exit", () => process.off("exit", end));
    options.onOpen?.(`${name}: by ${program.name}, ${snap} bytes of each packet (koffi is not installed)`);
    let opened = false;
    const next = async () => {
      if (opened || !child.stdout) return null;
      opened = true;
      // Without the signal: the output is read to its end, including what the child writes until it exits.
      const bytes = await openStream(child.stdout, name);
      return await CaptureReader.of(kernels, bytes, null, options.capture);
    };
    return new CaptureSource(name, next, { ...options, live: true });
  }
  return null;
}

/** Resolves once the program captures; null if it is not installed. */
function start(program: Program, args: string[], name: string): Promise<ChildProcess | null> {
  return new Promise((resolve, reject) => {
    const child = spawn(program.name, args, { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.once("error", () => resolve(null));
    child.once("exit", () => reject(refused(name, program.name, said)));
    child.stderr.on("data", (data) => {
      // Keep only the end: the program may write messages for days.
      said = `${said}${data}`.slice(-4096);
      if (!program.ready.test(said)) return;
      child.removeAllListeners("exit");
      resolve(child);
    });
  });
}

function refused(name: string, program: string, said: string): UsageError {
  const [line = "ended at once"] = said.trim().split("\n").reverse();
  const right = /permi/i.test(said);
  return new UsageError(
    "not-supported",
    `${name}: ${program}: ${line}`,
    right ? `run as root, or once: sudo setcap cap_net_raw+ep "$(command -v ${program})"` : undefined,
  );
}
