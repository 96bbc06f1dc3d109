/** Keeps the N largest values of a stream: a heap with the smallest on top, so keeping a value costs log N and most values cost one comparison. */

interface Kept<T> {
  value: number;
  /** Sequence number: of equal values, the earlier one ranks first. */
  order: number;
  item: T;
}

export class LargestKept<T> {
  readonly #most: number;
  readonly #heap: Kept<T>[] = [];
  #order = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** `make` is called only if the item is kept. */
  add(value: number, make: () => T): void {
    if (this.#most === 0) return;
    const order = this.#order++;
    const [smallest] = this.#heap;
    if (this.#heap.length < this.#most) {
      this.#heap.push({ value, order, item: make() });
      this.#up(this.#heap.length - 1);
    } else if (smallest && value > smallest.value) {
      this.#heap[0] = { value, order, item: make() };
      this.#down();
    }
  }

  /** Largest first. */
  sorted(): T[] {
    return [...this.#heap].sort((a, b) => (below(a, b) ? 1 : -1)).map((k) => k.item);
  }

  #up(from: number): void {
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#swapIfBelow(at, parent)) return;
      at = parent;
    }
  }

  #down(): void {
    for (let at = 0; ; ) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      if (left >= this.#heap.length) return;
      const [a, b] = [this.#heap[left], this.#heap[right]];
      const child = a && b && below(b, a) ? right : left;
      if (!this.#swapIfBelow(child, at)) return;
      at = child;
    }
  }

  #swapIfBelow(child: number, parent: number): boolean {
    const [a, b] = [this.#heap[child], this.#heap[parent]];
    if (!a || !b || !below(a, b)) return false;
    this.#heap[child] = b;
    this.#heap[parent] = a;
    return true;
  }
}

/** Of equal values, the later one is the smaller. */
function below<T>(a: Kept<T>, b: Kept<T>): boolean {
  return a.value < b.value || (a.value === b.value && a.order > b.order);
}
