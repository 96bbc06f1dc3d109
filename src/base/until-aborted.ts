/**
 * What a promise resolves with, or null where the signal aborts first. What is then still waited for is not wanted any more, nor is its failure. Nothing is left on the signal,
 * however often it is waited for (Promise.race would keep what every wait resolved with for as long as the other promise is pending).
 */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const end = () => resolve(null);
    if (signal.aborted) end();
    signal.addEventListener("abort", end, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}
