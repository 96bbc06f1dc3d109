/** Copies a typed array into a larger one, whose rest stays as it is. */
export function grown<T extends Uint32Array | Float64Array>(old: T, larger: T): T {
  larger.set(old);
  return larger;
}
