/**
 * Maximum rows of a stride. Longer than other batches, because each stride costs a hand-over between threads. The same everywhere, so that strides are the
 * same.
 */
export const STRIDE_ROWS = 4096;
