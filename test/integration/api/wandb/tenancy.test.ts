/**
 * Tenancy of W&B's API by walking over every query and mutation it says it has: a key of another entity or project learns nothing
 * and changes nothing. A field that is not known here fails, so that none is forgotten.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
let id: string

beforeAll(async () => {
  service = await createTestService()
  await service.createModel('m')
  const run = 'mutation { upsertBucket(input: {modelName: "tests", name: "secret-run"}) { bucket { id } } }'
  expect((await graphql(service.apiKey, run)).errors).toBeUndefined()
  const created = await graphql(
    service.apiKey,
    `mutation { createArtifact(input: {projectName: "tests", artifactCollectionName: "secret", artifactTypeName: "dataset",
      digest: "d", clientID: "secret-client"}) { artifact { id } } }`,
  )
  id = (created.data as { createArtifact: { artifact: { id: string } } }).createArtifact.artifact.id
  const aliases = 'aliases: [{alias: "best", artifactCollectionName: "secret"}]'
  const added = await graphql(
    service.apiKey,
    `mutation { addAliases(input: {artifactID: "${id}", ${aliases}}) { success } }`,
  )
  expect(added.errors).toBeUndefined()
})
afterAll(() => service.dispose())

interface Answer {
  readonly data: object | null
  readonly errors?: readonly { readonly extensions: { readonly code: string } }[]
}

async function graphql(key: string, query: string): Promise<Answer> {
  const authorization = `Basic ${Buffer.from(`api:${key}`).toString('base64')}`
  return (await service.json<Answer>('/graphql', { json: { query }, headers: { authorization } })).body
}

const RUNS = 'runs { edges { node { id name } } }'
const TYPES = 'artifactType(name: "dataset") { artifactCollections { edges { node { name } } } }'
const BY_NAME = 'artifact(name: "secret:best") { id } run(name: "secret-run") { id }'
const artifact = (name: string, more = '', selection = 'artifact { id }') =>
  `${name}(input: {artifactID: "${id}"${more}}) { ${selection} }`

/** How each field is asked for what belongs to the first entity; null: it says nothing of anybody. */
const QUERIES: Readonly<Record<string, (() => readonly string[]) | null>> = {
  viewer: () => ['viewer { id entity teams { edges { node { name } } } }'],
  serverInfo: null,
  organization: null,
  entity: () => ['entity(name: "local") { id }'],
  project: () => [
    `project(name: "tests", entityName: "local") { ${RUNS} ${TYPES} ${BY_NAME} }`,
    `project(name: "tests") { ${RUNS} ${TYPES} ${BY_NAME} }`,
  ],
  model: () => [`model(name: "tests", entityName: "local") { ${RUNS} }`, `model(name: "tests") { ${RUNS} ${BY_NAME} }`],
  artifact: () => [`artifact(id: "${id}") { id state artifactSequence { name } }`],
  clientIDMapping: () => ['clientIDMapping(clientID: "secret-client") { serverID }'],
}
const MUTATIONS: Readonly<Record<string, (() => string) | null>> = {
  markRunFilesUploaded: null,
  upsertBucket: () =>
    'upsertBucket(input: {entityName: "local", modelName: "tests", name: "secret-run", displayName: "taken"}) { bucket { id } }',
  createRunFiles: () =>
    'createRunFiles(input: {entityName: "local", projectName: "tests", runName: "secret-run", files: ["a"]}) { files { uploadUrl } }',
  createArtifact: () =>
    'createArtifact(input: {entityName: "local", projectName: "tests", artifactCollectionName: "secret", artifactTypeName: "dataset", digest: "e"}) { artifact { id } }',
  createArtifactManifest: () => artifact('createArtifactManifest', ', digest: "d"', 'artifactManifest { id }'),
  updateArtifactManifest: () =>
    `updateArtifactManifest(input: {artifactManifestID: "manifest-${id}", digest: "d"}) { artifactManifest { id } }`,
  createArtifactFiles: () =>
    `createArtifactFiles(input: {artifactFiles: [{artifactID: "${id}", name: "a", md5: "AAAAAAAAAAAAAAAAAAAAAA=="}]})
      { files { edges { node { uploadUrl } } } }`,
  commitArtifact: () => artifact('commitArtifact'),
  updateArtifact: () => artifact('updateArtifact', ', metadata: "{}"'),
  addAliases: () => artifact('addAliases', ', aliases: [{alias: "mine"}]', 'success'),
  deleteAliases: () => artifact('deleteAliases', ', aliases: [{alias: "best"}]', 'success'),
  deleteArtifact: () => artifact('deleteArtifact'),
  useArtifact: () => artifact('useArtifact'),
}

async function fieldsOf(root: 'Query' | 'Mutation'): Promise<string[]> {
  const { data } = await graphql(service.apiKey, `{ __type(name: "${root}") { fields { name } } }`)
  const { fields } = (data as { __type: { fields: { name: string }[] } }).__type
  return fields.map(({ name }) => name).sort()
}

describe('every query and mutation', () => {
  it('is known to this test', async () => {
    expect(await fieldsOf('Query')).toEqual(Object.keys(QUERIES).sort())
    expect(await fieldsOf('Mutation')).toEqual(Object.keys(MUTATIONS).sort())
  })

  it.each([['entity', { entity: 'others' }] as const, ['project', { project: 'elsewhere' }] as const])(
    'tells a key of another %s nothing, and changes nothing for it',
    async (_, rights) => {
      const { key } = await service.createKey(rights)
      const before = await everything()
      expect(before).toContain('secret-run')
      expect(before).toContain('best')
      for (const asked of Object.values(QUERIES)) {
        for (const query of asked?.() ?? []) {
          const text = JSON.stringify(await graphql(key, `{ ${query} }`))
          expect(text, query).not.toContain('secret')
          expect(text, query).not.toContain(id)
        }
      }
      for (const ask of Object.values(MUTATIONS)) {
        if (ask === null) continue
        const answer = await graphql(key, `mutation { ${ask()} }`)
        expect(answer.errors?.[0]?.extensions.code, ask()).toMatch(/_not_found$|^forbidden$/)
        expect(answer.data).toBeNull()
      }
      expect(await everything()).toBe(before)
    },
  )

  async function everything(): Promise<string> {
    const shown = `project(name: "tests") { ${RUNS} ${TYPES} run(name: "secret-run") { displayName state } }
      artifact(id: "${id}") { id state metadata aliases { alias } }`
    return JSON.stringify(await graphql(service.apiKey, `{ ${shown} }`))
  }
})

it('lines of a run of another entity or project are not taken', async () => {
  for (const rights of [{ entity: 'others' }, { project: 'elsewhere' }]) {
    const { key } = await service.createKey(rights)
    const sent = await service.json('/files/local/tests/secret-run/file_stream', {
      json: { files: { 'wandb-history.jsonl': { offset: 0, content: ['{"_step":0}'] } } },
      headers: { authorization: `Bearer ${key}` },
    })
    expect(sent.status).toBe(404)
  }
})
