// Everything the TypeScript side may call, one line per kernel file.
export * from "./batch";
export * from "./digest";
export { takeShorts } from "./decode";
export * from "./filter";
export * from "./walk";
export * from "./flows";
export * from "./cells";
export * from "./match";
export * from "./delays";
export * from "./simulate";
export * from "./maple-cells";
export * from "./maple-svbf";
export * from "./maple-filters";
export * from "./maple-ribbon";
export * from "./maple-buffer";
export * from "./maple-index";
export * from "./rli";
