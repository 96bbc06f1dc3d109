/**
 * The size of a structure for a target rate of classification failures (MAPLE, section 3.4: equations (1) to (3), tables 1 and 2, figure 4). p is the
 * probability that a packet also appears to be in some other group. n packets, k groups, m bits.
 *
 * Erratum: table 1 gives COMB(8, 3) 6 hash functions, which reach p = 0.1 at 24.2 bit/packet; section 5.3 runs it with 3 at 12.8, where p is 0.5.
 */

/** q: probability that h given bits of a filter at load n/m = alpha are all set. */
export function falsePositive(alpha: number, hashes: number): number {
  return (1 - Math.exp(-alpha * hashes)) ** hashes;
}

export interface Dimension {
  /** Whole hash functions (per code bit for COMB). */
  hashes: number;
  /** The exact number, before rounding up. */
  exactHashes: number;
  bitsPerPacket: number;
  /** Memory accesses for one packet, in words of 32 bits (table 1). */
  insertAccesses: number;
  lookupAccesses: number;
}

const hashesFor = (failure: number, others: number): number =>
  others <= 0 ? 1 : -Math.log2(1 - (1 - failure) ** (1 / others));

/** SVBF, and PBF with equal parts: (3). */
export function dimensionSvbf(failure: number, groups: number, wordBits = 32): Dimension {
  const exactHashes = hashesFor(failure, groups - 1);
  const hashes = Math.ceil(exactHashes - 1e-9);
  return {
    hashes,
    exactHashes,
    bitsPerPacket: exactHashes / Math.LN2,
    insertAccesses: hashes,
    lookupAccesses: (Math.ceil(groups / wordBits) + 1) * hashes,
  };
}

export function dimensionPbf(failure: number, groups: number): Dimension {
  const svbf = dimensionSvbf(failure, groups);
  return { ...svbf, lookupAccesses: groups * svbf.hashes };
}

/** COMB(f, theta): (2). */
export function dimensionComb(failure: number, f: number, theta: number): Dimension {
  const exactHashes = hashesFor(failure, f - theta);
  const hashes = Math.ceil(exactHashes - 1e-9);
  return {
    hashes,
    exactHashes,
    bitsPerPacket: (theta * exactHashes) / Math.LN2,
    insertAccesses: theta * hashes,
    lookupAccesses: f * hashes,
  };
}

/** Bits per packet of a hash table without collision handling, for a rate of false classifications. */
export function dimensionTable(falseRate: number, groups: number): Dimension {
  // p = 1 - (m/n)(1 - e^(-n/m)), solved for the load n/m by bisection.
  let low = 1e-9;
  let high = 50;
  for (let i = 0; i < 100; i++) {
    const load = (low + high) / 2;
    if (1 + Math.expm1(-load) / load < falseRate) low = load;
    else high = load;
  }
  return {
    hashes: 1,
    exactHashes: 1,
    bitsPerPacket: Math.ceil(Math.log2(groups)) / low,
    insertAccesses: 1,
    lookupAccesses: 1,
  };
}

/** Failure rate of an SVBF with this many bits per packet: (3). */
export function svbfFailure(bitsPerPacket: number, hashes: number, groups: number): number {
  return 1 - (1 - falsePositive(1 / bitsPerPacket, hashes)) ** (groups - 1);
}

export function combFailure(bitsPerPacket: number, hashes: number, f: number, theta: number): number {
  return 1 - (1 - falsePositive(theta / bitsPerPacket, hashes)) ** (f - theta);
}

/** Returns the number of hash functions that minimises the failures of an SVBF of this size. */
export function bestHashes(bitsPerPacket: number, entriesPerPacket = 1): number {
  return Math.max(1, Math.min(32, Math.round((bitsPerPacket / entriesPerPacket) * Math.LN2)));
}

/** Figure 4: minimum hash functions and maximum load alpha = n/m for k groups. */
export function figure4(failure: number, groups: number): { hashes: number; alpha: number } {
  const { exactHashes } = dimensionSvbf(failure, groups);
  return { hashes: exactHashes, alpha: Math.LN2 / exactHashes };
}

/** Stored bits of a ribbon for at most this false positive rate. */
export function ribbonCodeBits(groups: number, absentAccepted: number): number {
  return Math.min(16, Math.max(codeBitsOf(groups), Math.ceil(Math.log2(groups / absentAccepted) - 1e-9)));
}

export function codeBitsOf(groups: number): number {
  return Math.max(1, Math.ceil(Math.log2(groups)));
}
