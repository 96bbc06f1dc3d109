/** The state of a live tap when it sealed an epoch: its clock, and the cost of observing. */
import type { ByteReader, ByteWriter } from "../base/bytes.ts";
import { FormatError } from "../base/errors.ts";
import type { ClockState } from "../capture/source/clock-state.ts";

/** Cost of the observing program while the epoch was open. */
export interface TapEffort {
  /** CPU time of the whole process. */
  cpuNs: number;
  /** Number of records waiting to be stored or sent when the epoch was sealed. */
  queue: number;
}

const HAS_CLOCK = 1;
const HAS_EFFORT = 2;
const SYNCHRONISED = 1;
const DISCIPLINES = [null, "ntp", "ptp"] as const;

export interface TapState {
  clock?: ClockState;
  effort?: TapEffort;
}

export function writeTapState(out: ByteWriter, { clock, effort }: TapState): void {
  out.u8((clock ? HAS_CLOCK : 0) | (effort ? HAS_EFFORT : 0));
  const number = (n: number) => out.varint(Math.min(Math.round(n), Number.MAX_SAFE_INTEGER));
  if (clock) {
    out.u8((clock.synchronised ? SYNCHRONISED : 0) | (DISCIPLINES.indexOf(clock.discipline) << 1));
    out.u64(clock.id);
    number(clock.estimatedErrorNs);
    number(clock.maximumErrorNs);
  }
  if (effort) {
    number(effort.cpuNs);
    number(effort.queue);
  }
}

export function readTapState(reader: ByteReader): TapState {
  const at = reader.offset;
  const parts = reader.u8();
  if (parts > (HAS_CLOCK | HAS_EFFORT))
    throw new FormatError("bad-header", reader.file, at, `unknown state ${parts}`);
  const state: TapState = {};
  if ((parts & HAS_CLOCK) !== 0) state.clock = readClock(reader);
  if ((parts & HAS_EFFORT) !== 0) state.effort = { cpuNs: reader.varint(), queue: reader.varint() };
  return state;
}

function readClock(reader: ByteReader): ClockState {
  const at = reader.offset;
  const flags = reader.u8();
  const discipline = DISCIPLINES[flags >> 1];
  if (discipline === undefined)
    throw new FormatError("bad-header", reader.file, at, `unknown flags ${flags} of a clock`);
  return {
    id: reader.u64(),
    synchronised: (flags & SYNCHRONISED) !== 0,
    discipline,
    estimatedErrorNs: reader.varint(),
    maximumErrorNs: reader.varint(),
  };
}
