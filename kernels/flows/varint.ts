// Writes whole numbers in as few bytes as they need, seven bits in each, lowest first (LEB128), for payloads.

// @ts-ignore: decorator
@inline
export function varint(at: usize, value: u64): usize {
  while (value >= 0x80) {
    store<u8>(at++, <u8>value | 0x80);
    value >>= 7;
  }
  store<u8>(at++, <u8>value);
  return at;
}
