// A query to a store: the packets' keys, and where the answers go. The owner is src/estimators/maple/stores/asked.ts.

@unmanaged
export class Asked {
  keys: u32; //   u64 each
  count: u32;
  out: u32; //    8 bytes each: group | kind << 16, lowest | highest candidate << 16
  counts: u32; // packets of each group (u32), which break ties; 0 where there are none to break
}
