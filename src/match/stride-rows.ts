/** Most rows of a stride. Longer than other batches: each stride costs a hand-over where another thread reads. The same everywhere, so that strides are. */
export const STRIDE_ROWS = 4096;
