/**
 * A plugin of somebody else: rewards that every program of a team gives alike, and a list of what got them. One endpoint gives one, one lists
 * them; a setting says what is too long, a command says what a reward is given for, an option of RL jobs takes some of it for
 * each word, a page shows the list.
 *
 * `trainyard serve --plugin ./reward-service.js`
 */
import { argument, defineCommand, definePlugin, endpoints, small, z } from 'trainyard/plugin'

const ours = { tag: 'Rewards', origin: 'ours' }
const scored = z.object({ id: z.string(), text: z.string(), reward: z.number() })
const rows = endpoints({
  'POST /v1/preview/reward/scores': {
    ...ours,
    ...{ summary: 'Give an answer its reward', scope: 'write', answer: scored },
    body: small(z.object({ text: z.string().max(10_000), expected: z.string().max(100) })),
  },
  'GET /v1/preview/reward/scores': {
    ...ours,
    ...{ summary: 'List what got rewards', scope: 'read', answer: z.object({ data: z.array(scored) }) },
  },
})

export const plugin = definePlugin({
  name: 'reward',
  settings: {
    mostWords: {
      ...{ key: 'reward-most-words', type: 'integer', default: 20, bounds: { min: 1, max: 1000 } },
      summary: 'longer answers get half of their reward',
    },
  },
  pages: [{ pattern: '', section: 'Rewards', module: new URL('./reward-page.js', import.meta.url) }],
  jobOptions: {
    rl: {
      rows: {
        word_cost: {
          ...{ type: 'number', default: 0, bounds: { min: 0, max: 1 } },
          summary: 'taken from the reward for each word of the answer',
        },
      },
      rewards: async () => ({ shape: takeForWords }),
    },
  },
  endpoints: async () => ({
    runs: [{ after: 'GET /v1/whoami', rows }],
    sections: [{ name: 'Rewards', after: 'Files' }],
  }),
  handlers: async ({ context: { db, ids }, settings: { mostWords } }) => ({
    'POST /v1/preview/reward/scores': async ({ principal: { entity }, body }) => {
      const { text, expected } = await body()
      const isLong = text.split(/\s+/).length > mostWords
      const row = { id: ids.uuid(), entity, text, reward: text.includes(expected) ? (isLong ? 0.5 : 1) : 0 }
      await db.withTables().insertInto('reward_scores').values(row).execute()
      return { id: row.id, text, reward: row.reward }
    },
    'GET /v1/preview/reward/scores': async ({ principal: { entity } }) => {
      const query = db.withTables().selectFrom('reward_scores').select(['id', 'text', 'reward'])
      return { data: await query.where('entity', '=', entity).orderBy('id', 'desc').limit(100).execute() }
    },
  }),
  tables: async () => ({
    tables: { reward_scores: { isListedById: true } },
    migrations: { 'reward/0001-scores': { up: createScores } },
    postgresMigrations: {},
  }),
  commands: {
    after: 'usage',
    rows: [{ path: 'reward say', summary: 'Say what a reward is given for', load: async () => say }],
  },
})

/** @type {import('trainyard/plugin').RewardShaping['shape']} */
function takeForWords(groups, { word_cost: cost }) {
  const wordsOf = ({ messages }) => messages.at(-1)?.text.split(/\s+/).length ?? 0
  return groups.map((group) => group.map((each) => each.reward - Number(cost) * wordsOf(each)))
}

/** @param {import('kysely').Kysely<unknown>} db */
async function createScores(db) {
  const table = db.schema.createTable('reward_scores').addColumn('id', 'text', (c) => c.primaryKey())
  const columns = table.addColumn('entity', 'text', (c) => c.notNull()).addColumn('text', 'text', (c) => c.notNull())
  await columns.addColumn('reward', 'real', (c) => c.notNull()).execute()
}

const say = defineCommand({
  path: ['reward', 'say'],
  summary: 'Say what a reward is given for',
  examples: [
    ['trainyard reward say 42', 'what an answer must hold'],
    ['trainyard reward say 42 --json', 'the same for scripts'],
  ],
  args: { expected: argument.required('text that an answer must hold') },
  flags: {},
  async run({ output, args }) {
    output.result({ expected: args.expected }, `1 for answers with "${args.expected}", 0.5 if they are long`, [])
  },
})
