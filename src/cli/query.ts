/** `hoptime query DIR --between A B`: what the records of two points say. */
import { Command } from "commander";
import { RecordArchive } from "../archive/archive.ts";
import { UsageError } from "../base/errors.ts";
import { parseTime } from "../base/time.ts";
import { readFlowRecords } from "../capture/flow-records.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { formatAnswer } from "../query/answer-text.ts";
import { askArchive } from "../query/ask.ts";
import { DEFAULT_CONFIDENCE } from "../query/question.ts";
import { addEstimatorOptions, estimatorParameters, parameterHelp, splitNames } from "./estimator-options.ts";
import { integerOption } from "./options.ts";
import { colours } from "./terminal.ts";

interface Flags {
  between?: string[];
  segment?: string;
  class?: string;
  estimator?: string;
  flow?: string[];
  top?: number;
  group?: string;
  from?: bigint;
  to?: bigint;
  confidence: number;
  flowRecords?: string;
  series?: number | boolean;
  json?: boolean;
}

const EXAMPLES = `
Times are 2026-11-15T04:00:00Z, seconds with a point (1700000000.5) or nanoseconds. Epochs that reach into the time asked for count whole.
--group takes host (pairs of hosts), prefix/N (pairs of prefixes), or any key: src, dst/24, proto, dscp …

Examples:
  hoptime query records --between A B
  hoptime query records --between A B --top 10
  hoptime query records --between A B --flow 'tcp 10.0.0.1:443 > 10.0.0.9:51000' --json
  hoptime query records --between A B --group prefix/24 --from 2026-11-15T04:00:00Z --to 2026-11-15T05:00:00Z
`;

export function queryCommand(table: readonly Estimator[] = ESTIMATORS): Command {
  const command = new Command("query")
    .description(
      "Pairs the records of two points and tells the latency and loss between them, with its error bars.",
    )
    .argument("<dir>", "directory of records (hoptime observe --to)")
    .option("--between <points...>", "sender and receiver: A B")
    .option("--segment <label>", "records of this segment, where a point was observed by several")
    .option("--class <name>", "records of this traffic class")
    .option("--estimator <names>", "only these (default: all that have records)")
    .option("--flow <key...>", "these flows: 'tcp 10.0.0.1:443 > 10.0.0.9:51000'")
    .option("--top <n>", "the flows or groups with the most packets", integerOption("--top", 1))
    .option("--group <key>", "put flows together: host, prefix/24, dst, proto …")
    .option("--from <time>", "from this time on", parseTime)
    .option("--to <time>", "before this time", parseTime)
    .option("--confidence <share>", "of the intervals", Number, DEFAULT_CONFIDENCE)
    .option("--flow-records <file>", "packets per flow where no flow table was kept: IPFIX or CSV")
    .option("--series [n]", "show the epochs one by one (the first n)", integerOption("--series", 1))
    .option("--json", "everything as JSON (format hoptime.answer/1)");
  addEstimatorOptions(command, table, true);
  return command
    .addHelpText("after", `${parameterHelp(table, true)}${EXAMPLES}`)
    .action((directory: string, flags: Flags) => run(directory, flags, table));
}

function run(directory: string, flags: Flags, table: readonly Estimator[]): void {
  const { between } = flags;
  if (between?.length !== 2) {
    throw new UsageError("bad-question", "--between needs two points", "such as --between A B");
  }
  const archive = RecordArchive.open(directory);
  const answer = askArchive(
    archive,
    {
      between: [between[0]!, between[1]!],
      segment: flags.segment ?? flags.class,
      estimators: flags.estimator === undefined ? undefined : splitNames("--estimator", flags.estimator),
      flows: flags.flow,
      top: flags.top,
      group: flags.group,
      fromNs: flags.from,
      toNs: flags.to,
      confidence: flags.confidence,
      parameters: estimatorParameters(flags as unknown as Record<string, unknown>, table),
    },
    {
      table,
      flowRecords: flags.flowRecords === undefined ? undefined : readFlowRecords(flags.flowRecords),
    },
  );
  archive.close();
  const series =
    flags.series === true ? Number.POSITIVE_INFINITY : flags.series === undefined ? 0 : Number(flags.series);
  process.stdout.write(
    flags.json ? `${JSON.stringify(answer)}\n` : formatAnswer(answer, { colours, series }),
  );
}
