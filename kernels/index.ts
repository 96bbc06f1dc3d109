// Everything the TypeScript side may call, one line per kernel file.
export * from "./batch";
export * from "./digest";
export * from "./filter";
export { cursorFixedBytes, cursorNew } from "./cursor";
export * from "./walk";
export { walkErf } from "./walk-erf";
export * from "./flows";
export * from "./cells";
export { keyRuns } from "./key-runs";
export { statsKey, statsPeer, statsReverse } from "./flow-index";
export { statsCount, statsFaults, statsFlow, statsFree, statsMore, statsNew, statsTop } from "./flow-records";
export * from "./flow-sums";
export { matchConfigure, matchFree, matchNew, matchTableBytes } from "./match-state";
export * from "./match";
export * from "./thin";
export * from "./lds";
export * from "./delays";
export * from "./simulate";
export * from "./maple-cells";
export * from "./maple-svbf";
export * from "./maple-filters";
export * from "./maple-ribbon";
export * from "./maple-mixed";
export * from "./maple-buffer";
export * from "./maple-index";
export * from "./maple-flow-delays";
export * from "./rli";
export {
  rliClear, rliCounters, rliExpired, rliExpiredCount, rliFlows, rliForget, rliFree, rliNew, rliOrigin, rliReferences, rliSums,
} from "./rli-state";
export * from "./reference-finder";
export * from "./lda";
export * from "./flow-counts";
export * from "./colate";
