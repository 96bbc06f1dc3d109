/**
 * Queries records whose bytes were changed and whose checksums were corrected.
 *
 *   node scripts/bench.mjs mutations [count] [seed]
 *
 * Prints one line of JSON: mutations, questions, refused, failed, and the maximum memory of the process in MB. Exits with 1 if a question failed.
 */
import { Kernels } from "../src/base/kernels.ts";
import { askMutated } from "../src/evaluate/mutated-records.ts";

const [count = "10000", seed = "1"] = process.argv.slice(2);
const report = await askMutated(new Kernels(), Number(count), Number(seed));
// maxRSS is in KiB.
const memoryMb = Math.round(process.resourceUsage().maxRSS / 1024);
process.stdout.write(`${JSON.stringify({ ...report, failed: report.failed.slice(0, 5), memoryMb })}\n`);
process.exitCode = report.failed.length > 0 ? 1 : 0;
