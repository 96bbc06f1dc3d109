/** Formats an answer about packets as lines of text. */
import { countOf, formatCount } from "../../base/quantity.ts";
import { formatDuration, formatTime } from "../../base/time.ts";
import type { PacketAnswer, PacketGroup } from "../../query/packet/answer.ts";
import { plainReason } from "./reason.ts";

interface Colours {
  bold(text: string): string;
  dim(text: string): string;
  yellow(text: string): string;
}

/** Number of groups printed in full; the JSON has all. */
const MAX_GROUPS = 50;
/** Number of groups whose slowest packets are printed. */
const MAX_WORST = 3;

export function formatPacketAnswer(answer: PacketAnswer, c: Colours): string {
  const { packets, matched, multi, missing, epochs, bytes } = answer;
  const [point] = answer.points;
  const lines = [
    `${c.bold("packets")}  ${formatCount(packets)} asked of ${point?.name} in ${countOf(epochs.asked, "epoch")}: ${formatCount(matched)} answered, ${formatCount(multi)} guessed, ${formatCount(missing)} not found`,
  ];
  for (const [i, group] of answer.groups.slice(0, MAX_GROUPS).entries()) {
    lines.push(`${c.bold(group.text)}  ${describe(group)}`);
    if (i >= MAX_WORST) continue;
    for (const w of group.worst) {
      lines.push(
        c.dim(
          `  ${formatTime(BigInt(w.timeNs), 6)} ${formatDuration(w.delayNs)}${w.guess ? " (a guess)" : ""} ${w.packet}`,
        ),
      );
    }
  }
  if (answer.groups.length > MAX_GROUPS)
    lines.push(`… ${formatCount(answer.groups.length - MAX_GROUPS)} more (‘json’ lists all)`);
  lines.push(
    c.dim(
      `question ${formatCount(bytes.question)} bytes, answer ${formatCount(bytes.answer)} bytes in compact form; ${formatCount(bytes.read)} bytes read`,
    ),
  );
  for (const { file, reason } of epochs.refused.slice(0, 10))
    lines.push(c.yellow(`refused  ${file}: ${reason}`));
  for (const note of answer.notes) lines.push(`${c.bold("note")}  ${note}`);
  return `${lines.join("\n")}\n`;
}

function describe({ packets, matched, multi, latency, reason }: PacketGroup): string {
  if (!latency) return plainReason(reason ?? "");
  const range = `${formatDuration(latency.lowNs)} to ${formatDuration(latency.highNs)}`;
  if (packets === 1) return `${formatDuration(latency.meanNs)} (${range})${multi > 0 ? ", a guess" : ""}`;
  const found =
    matched + multi === packets
      ? countOf(packets, "packet")
      : `${formatCount(matched + multi)} of ${countOf(packets, "packet")}`;
  const guesses = multi > 0 ? `, ${formatCount(multi)} guessed` : "";
  return `mean ${formatDuration(latency.meanNs)} (${range}), standard deviation ${formatDuration(latency.stdevNs)}, median ${formatDuration(latency.p50Ns)}, p99 ${formatDuration(latency.p99Ns)}, ${found}${guesses}`;
}
