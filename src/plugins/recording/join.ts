/**
 * Recorded calls → histories, by token ids alone: a prompt that begins with an earlier prompt and its answer continues that
 * one, and any other begins a history of its own (a sub-agent, a compacted conversation, a text that was tokenized in
 * another way).
 *
 * Every sampled token is in exactly one history. Knows neither text nor wire. Held by `test/plugins/recording/join.test.ts`.
 */

/** An answer of a call; of several choices each. */
interface JoinableChoice {
  readonly tokenIds: readonly number[]
}
interface JoinableCall<C extends JoinableChoice = JoinableChoice> {
  readonly promptIds: readonly number[]
  readonly choices: readonly C[]
}

export interface Turn<C extends JoinableChoice, A extends JoinableCall<C>> {
  readonly call: A
  readonly choice: C
}

interface Node<C extends JoinableChoice, A extends JoinableCall<C>> extends Turn<C, A> {
  /** Of prompt and answer. */
  readonly length: number
  readonly hash: number
  next: Node<C, A> | null
  isContinuing: boolean
}

/**
 * @param calls in the order in which they began
 * @returns histories in the order of their first calls; where several prompts continue one answer the first of them does
 */
export function joinCalls<C extends JoinableChoice, A extends JoinableCall<C>>(
  calls: readonly A[],
): readonly (readonly Turn<C, A>[])[] {
  const nodes = calls.map((call) => {
    const start = hashOf(0, call.promptIds)
    return call.choices.map(
      (choice): Node<C, A> => ({
        ...{ call, choice, next: null, isContinuing: false },
        length: call.promptIds.length + choice.tokenIds.length,
        hash: hashOf(start, choice.tokenIds),
      }),
    )
  })
  const byEnd = new Map<string, Node<C, A>[]>()
  const lengths = new Set<number>()
  for (const node of nodes.flat()) {
    // what nothing was sampled for cannot be told from its prompt
    if (node.choice.tokenIds.length === 0) continue
    const key = `${node.length} ${node.hash}`
    byEnd.set(key, [...(byEnd.get(key) ?? []), node])
    lengths.add(node.length)
  }
  for (const own of nodes) {
    const [first] = own
    if (first === undefined) continue
    const parent = longestBefore(first.call.promptIds, lengths, byEnd)
    if (parent === null) continue
    parent.next = first
    first.isContinuing = true
  }
  const histories: (readonly Turn<C, A>[])[] = []
  for (const node of nodes.flat()) {
    if (node.isContinuing) continue
    const turns: Turn<C, A>[] = []
    for (let at: Node<C, A> | null = node; at !== null; at = at.next) turns.push({ call: at.call, choice: at.choice })
    histories.push(turns)
  }
  return histories
}

/** The answer that nothing continues yet and the prompt holds most of. */
function longestBefore<C extends JoinableChoice, A extends JoinableCall<C>>(
  promptIds: readonly number[],
  lengths: ReadonlySet<number>,
  byEnd: ReadonlyMap<string, readonly Node<C, A>[]>,
): Node<C, A> | null {
  let found: Node<C, A> | null = null
  let hash = 0
  for (let t = 0; t < promptIds.length; t++) {
    hash = nextHash(hash, promptIds[t] ?? 0)
    if (!lengths.has(t + 1)) continue
    const ends = byEnd.get(`${t + 1} ${hash}`) ?? []
    found = ends.find((node) => node.next === null && beginsWith(promptIds, node)) ?? found
  }
  return found
}

function beginsWith(
  promptIds: readonly number[],
  { call, choice }: { readonly call: JoinableCall; readonly choice: JoinableChoice },
): boolean {
  const start = call.promptIds.length
  return (
    call.promptIds.every((id, t) => id === promptIds[t]) &&
    choice.tokenIds.every((id, t) => id === promptIds[start + t])
  )
}

/** FNV-1a of 32 bits (Fowler, Noll, Vo) over ids; equal hashes are compared id by id. */
const nextHash = (hash: number, id: number): number => Math.imul(hash ^ (id + 1), 16_777_619)
const hashOf = (start: number, ids: readonly number[]): number => ids.reduce(nextHash, start)
