// Everything the TypeScript side may call, one line per kernel file.
export * from "./batch";
export * from "./digest";
export * from "./filter";
export * from "./walk";
export * from "./flows";
export * from "./cells";
export {
  statsCount, statsDirection, statsEdgesOnly, statsEnsure, statsFlow, statsFree, statsMeasure, statsMore, statsNew, statsSums, statsTurn,
} from "./flow-stats";
export * from "./match";
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
export * from "./lda";
export * from "./flow-counts";
export * from "./colate";
