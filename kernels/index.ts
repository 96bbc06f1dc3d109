// Everything the TypeScript side may call, one line per kernel file.
export * from "./batch";
export * from "./digest";
export { takeShorts } from "./decode";
export * from "./filter";
export * from "./walk";
export * from "./flows";
export * from "./cells";
export * from "./match";
export * from "./rli";
export * from "./simulate";
export * from "./lda";
export * from "./flow-counts";
export * from "./colate";
