/**
 * The order of test files: slow ones first, so that no worker is left with one at the end; those of src/ together, because a process with loaded modules
 * continues with the next of them. Tests that measure a real network in real time (a separate project, vitest.config.ts) come last. They mostly wait, so they
 * run in parallel with each other, but not with tests that compute.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Half a minute or more. */
const LONG = [
  "src/estimators/conformance",
  "src/estimators/lds/decoders",
  "tests/e2e/collector-page",
  "tests/reproduction/colate",
  "tests/reproduction/levels",
  "tests/e2e/cluster",
  "tests/e2e/report-page",
  "tests/e2e/observe-soak",
  "src/network/localise/blame",
  "tests/reproduction/maple-thresholds",
  "src/evaluate/rli-experiment",
  "tests/e2e/station",
  "tests/e2e/collect-crash",
  "tests/e2e/compare-timestamps",
  "tests/e2e/cli",
];

export const REAL_TIME = [
  "tests/e2e/live-epochs",
  "tests/e2e/observe-interface",
  "tests/e2e/offload-router",
  "tests/e2e/demo-live",
  "tests/e2e/one-box",
  "tests/e2e/localise-routers",
  "tests/e2e/top",
  "tests/e2e/observe-interface-ways",
  "tests/e2e/control-live",
  "tests/e2e/one-box-router",
  "tests/e2e/rli-router",
  // Not next to the first, whose queue it would disturb most.
  "tests/e2e/ebpf-router",
];

export class FileOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const placeOf = ({ moduleId, project }: TestSpecification) => {
      const last = REAL_TIME.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      if (last >= 0) return last;
      const first = LONG.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      if (first >= 0) return first;
      return LONG.length + (project.name === "src" ? 1 : 0);
    };
    return sorted.sort((a, b) => placeOf(a) - placeOf(b));
  }
}
