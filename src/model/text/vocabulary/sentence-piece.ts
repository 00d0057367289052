/**
 * Spelling of tokens in SentencePiece-style vocabularies: `▁` (U+2581) is a space, `<0x0A>` is a byte.
 */

import { MergeTable } from './merge-table.js'

const utf8 = new TextEncoder()

/** The byte that a token such as `<0x0A>` stands for; null for any other. */
export function tokenByte(token: string): number | null {
  const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(token)?.[1]
  return byte === undefined ? null : Number.parseInt(byte, 16)
}

/** The bytes that a SentencePiece-style token stands for. */
export function sentencePieceTokenBytes(token: string): Uint8Array {
  const byte = tokenByte(token)
  return byte === null ? utf8.encode(token.replaceAll('\u2581', ' ')) : Uint8Array.of(byte)
}

/**
 * The merges that scores imply: two tokens merge when their joint spelling is a token, the highest score first.
 *
 * @param scores one per token, higher merges earlier
 */
export function mergesFromScores(
  tokens: readonly string[],
  scores: readonly number[],
  tokenToId: ReadonlyMap<string, number>,
): MergeTable {
  const byScore = [...new Set(scores)].sort((a, b) => b - a)
  const rankOfScore = new Map(byScore.map((score, rank) => [score, rank]))
  const splits: { left: number; right: number; rank: number; merged: number }[] = []
  for (const [id, token] of tokens.entries()) {
    const merged = tokenToId.get(token)
    if (merged !== id) continue
    const rank = rankOfScore.get(scores[id] ?? 0) ?? 0
    for (let cut = 1; cut < token.length; cut++) {
      const left = tokenToId.get(token.slice(0, cut))
      const right = left === undefined ? undefined : tokenToId.get(token.slice(cut))
      if (left !== undefined && right !== undefined) splits.push({ left, right, rank, merged })
    }
  }
  const table = new MergeTable(splits.length)
  for (const { left, right, rank, merged } of splits) table.add(left, right, rank, merged)
  return table
}
