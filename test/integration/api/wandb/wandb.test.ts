/**
 * W&B's API by hand, for what its client never does: wrong keys, foreign things, torn uploads, hostile documents.
 */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

let service: TestService
let model: string
beforeAll(async () => {
  service = await createTestService()
  model = await service.createModel('m')
})
afterAll(() => service.dispose())

interface Answer {
  data: Record<string, never> | null
  errors?: { message: string; extensions: { code: string } }[]
}

async function graphql(
  query: string,
  variables: object = {},
  key = service.apiKey,
): Promise<{ status: number; body: Answer }> {
  const authorization = `Basic ${Buffer.from(`api:${key}`).toString('base64')}`
  return service.json<Answer>('/graphql', { json: { query, variables }, headers: { authorization } }) as never
}

async function mutate(name: string, input: object, selection: string): Promise<Answer> {
  const { body } = await graphql(`mutation M($input: I!) { ${name}(input: $input) { ${selection} } }`, { input })
  return body
}

const md5 = (text: string) => createHash('md5').update(text).digest('base64')

/** Creates an artifact and gives the addresses of its manifest and of the files named. */
async function create(collection: string, files: Record<string, string>, type = 'dataset', aliases: string[] = []) {
  const input = {
    entityName: 'local',
    projectName: 'tests',
    artifactCollectionName: collection,
    artifactTypeName: type,
    digest: `${collection}-${JSON.stringify(files)}`,
    aliases: aliases.map((alias) => ({ alias, artifactCollectionName: collection })),
  }
  const created = await mutate('createArtifact', input, 'artifact { id state }')
  const { id, state } = (created.data as never as { createArtifact: { artifact: { id: string; state: string } } })
    .createArtifact.artifact
  return { id, state }
}

const pathOf = (url: string) => url.slice(service.url.length)

async function addressOfFile(id: string, name: string, text: string): Promise<string> {
  const answer = await mutate(
    'createArtifactFiles',
    { artifactFiles: [{ artifactID: id, name, md5: md5(text) }] },
    'files { edges { node { uploadUrl } } }',
  )
  const data = answer.data as never as { createArtifactFiles: { files: { edges: { node: { uploadUrl: string } }[] } } }
  return pathOf(data.createArtifactFiles.files.edges[0]?.node.uploadUrl ?? '')
}

async function addressOfManifest(id: string): Promise<string> {
  const answer = await mutate(
    'createArtifactManifest',
    { artifactID: id, digest: '' },
    'artifactManifest { file { uploadUrl } }',
  )
  const data = answer.data as never as { createArtifactManifest: { artifactManifest: { file: { uploadUrl: string } } } }
  return pathOf(data.createArtifactManifest.artifactManifest.file.uploadUrl)
}

const manifestOf = (files: Record<string, string>) =>
  JSON.stringify({
    version: 1,
    storagePolicy: 'wandb-storage-policy-v1',
    contents: Object.fromEntries(
      Object.entries(files).map(([name, text]) => [name, { digest: md5(text), size: text.length }]),
    ),
  })

async function upload(collection: string, files: Record<string, string>, type = 'dataset', aliases: string[] = []) {
  const { id } = await create(collection, files, type, aliases)
  for (const [name, body] of Object.entries(files)) {
    expect((await service.fetch(await addressOfFile(id, name, body), { method: 'PUT', body })).status).toBe(200)
  }
  expect((await service.fetch(await addressOfManifest(id), { method: 'PUT', body: manifestOf(files) })).status).toBe(
    200,
  )
  return { id, commit: await mutate('commitArtifact', { artifactID: id }, 'artifact { id state versionIndex }') }
}

const ROW = `${JSON.stringify({
  messages: [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
  ],
})}\n`

describe('keys and owners', () => {
  it('needs a key, as Basic or Bearer', async () => {
    expect(
      (await service.fetch('/graphql', { json: { query: '{viewer{entity}}' }, headers: { authorization: '' } })).status,
    ).toBe(401)
    expect((await graphql('{viewer{entity}}', {}, 'x'.repeat(40))).status).toBe(401)
    expect((await graphql('{viewer{entity}}')).body).toEqual({ data: { viewer: { entity: 'local' } } })
    const bearer = await service.json('/graphql', { json: { query: '{viewer{entity}}' } })
    expect(bearer.status).toBe(200)
    const stream = await service.fetch('/files/local/p/r/file_stream', { json: {}, headers: { authorization: '' } })
    expect(stream.status).toBe(401)
  })
  it('knows no other entity', async () => {
    const { body } = await graphql('{ project(name: "p", entityName: "other") { id } }')
    expect(body.errors?.[0]?.extensions.code).toBe('entity_not_found')
    expect((await service.fetch('/files/other/p/r/file_stream', { json: {} })).status).toBe(404)
  })
  it('keeps keys to their project and scope', async () => {
    const { id } = await create('bound', {})
    const { key } = await service.createKey({ project: 'elsewhere' })
    expect((await graphql('{ project(name: "tests") { id } }', {}, key)).body.errors?.[0]?.extensions.code).toBe(
      'forbidden',
    )
    const byId = await graphql('query Q($id: ID!) { artifact(id: $id) { id } }', { id }, key)
    expect(byId.body).toEqual({ data: { artifact: null } })
    const reader = await service.createKey({ scope: 'read' })
    expect(
      (await graphql('mutation { commitArtifact(input: {artifactID: "x"}) { artifact { id } } }', {}, reader.key))
        .status,
    ).toBe(403)
    expect((await graphql('{ viewer { entity } }', {}, reader.key)).status).toBe(200)
  })
  it('opens no address that it did not sign', async () => {
    const [payload, signature] = new URL(
      `${service.url}${await addressOfManifest((await create('signed', {})).id)}`,
    ).searchParams
      .get('token')!
      .split('.')
    const forged = Buffer.from(
      Buffer.from(payload!, 'base64url').toString().replace('put_manifest', 'get_manifest'),
    ).toString('base64url')
    for (const token of ['', 'a.b', `${forged}.${signature}`, `${payload}.${signature?.slice(2)}`, `${payload}`]) {
      const response = await service.fetch(`/wandb/storage?token=${token}`, { method: 'PUT', body: 'x' })
      expect(response.status, token).toBe(403)
    }
    const wrongWay = await service.fetch(`/wandb/storage?token=${payload}.${signature}`)
    expect(wrongWay.status).toBe(405)
  })
})

describe('documents', () => {
  it.each([
    ['unknown query', '{ launchRockets }', 'not_implemented'],
    ['unknown mutation', 'mutation { deleteEverything { ok } }', 'not_implemented'],
  ])('%s is refused by name', async (_, query, code) => {
    expect((await graphql(query)).body.errors?.[0]?.extensions.code).toBe(code)
  })
  it.each([
    ['no document', 'this is not graphql'],
    ['two operations', 'query A { viewer { id } } query B { viewer { id } }'],
    ['a missing fragment', '{ viewer { ...Nowhere } }'],
    ['depth', `{ viewer ${'{ a '.repeat(20_000)}`],
    [
      'a huge answer',
      `{ ${Array.from({ length: 900 }, (_, i) => `a${i}: viewer { id entity username name }`).join(' ')} }`.repeat(1),
    ],
  ])('%s is answered, never a crash', async (name, query) => {
    const { status } = await graphql(query)
    expect(status).toBe(['a huge answer', 'a missing fragment'].includes(name) ? 200 : 400)
  })
  it('fragments that name each other end', async () => {
    const loop = '{ viewer { ...A } } fragment A on V { entity ...B } fragment B on V { id ...A }'
    expect((await graphql(loop)).body).toEqual({ data: { viewer: { entity: 'local', id: 'local' } } })
  })
})

describe('artifacts', () => {
  it('are committed whole or not at all', async () => {
    const { id } = await create('torn', { 'train.jsonl': ROW })
    const commit = () => mutate('commitArtifact', { artifactID: id }, 'artifact { state }')
    expect((await commit()).errors?.[0]?.message).toContain('manifest was not uploaded')
    await service.fetch(await addressOfManifest(id), { method: 'PUT', body: manifestOf({ 'train.jsonl': ROW }) })
    expect((await commit()).errors?.[0]?.message).toContain('file "train.jsonl" was not uploaded')
    const torn = await service.fetch(await addressOfFile(id, 'train.jsonl', ROW), {
      method: 'PUT',
      body: ROW.slice(0, -9),
    })
    expect(torn.status).toBe(400)
    await service.fetch(await addressOfFile(id, 'train.jsonl', ROW), { method: 'PUT', body: ROW })
    expect((await commit()).errors).toBeUndefined()
  })
  it('are training data by version and alias, and never change', async () => {
    const { id } = await upload('rows', { 'train.jsonl': ROW }, 'dataset', ['best'])
    for (const version of ['v0', 'best', 'latest']) {
      const job = await service.json('/v1/preview/sft-training-jobs', {
        json: { model_id: model, training_data_url: `wandb-artifact:///local/tests/rows:${version}` },
      })
      expect(job.status).toBe(200)
    }
    expect((await create('rows', { 'train.jsonl': ROW })).id).toBe(id)
    const again = await mutate(
      'createArtifactFiles',
      { artifactFiles: [{ artifactID: id, name: 'x', md5: 'y' }] },
      'files { edges { node { id } } }',
    )
    expect(again.errors?.[0]?.extensions.code).toBe('artifact_committed')
    const unknown = await service.json('/v1/preview/sft-training-jobs', {
      json: { model_id: model, training_data_url: 'wandb-artifact:///local/tests/rows:v1' },
    })
    expect(unknown.status).toBe(400)
  })
  it('with several files need a usual name to be training data', async () => {
    await upload('many', { 'a.jsonl': ROW, 'b.jsonl': ROW })
    const { status, body } = await service.json<{ detail: string }>('/v1/preview/sft-training-jobs', {
      json: { model_id: model, training_data_url: 'wandb-artifact:///local/tests/many:v0' },
    })
    expect(status).toBe(400)
    expect(body.detail).toContain('"a.jsonl", "b.jsonl"')
  })
  it('that are no adapter never become a checkpoint', async () => {
    // jobs of other tests make checkpoints of their own
    await until(async () => {
      const { body } = await service.json<{ data: { status: string }[] }>('/v1/preview/training-jobs')
      return body.data.every(({ status }) => status === 'completed')
    }, 'the jobs to end')
    const checkpoints = async () => (await service.json(`/v1/preview/models/${model}/checkpoints`)).body
    const before = await checkpoints()
    const { commit } = await upload('m', { 'adapter_config.json': '{}', 'adapter_model.safetensors': 'x' }, 'lora', [
      'step3',
    ])
    expect(commit.errors).toHaveLength(1)
    const { commit: empty } = await upload('m', { 'readme.txt': 'x' }, 'lora')
    expect(empty.errors?.[0]?.extensions.code).toBe('adapter_refused')
    expect(await checkpoints()).toEqual(before)
  })
  it('survive the sweep and a restart, addresses too', async () => {
    const { id } = await create('kept', { 'train.jsonl': ROW })
    const address = await addressOfFile(id, 'train.jsonl', ROW)
    service = await service.restart()
    expect((await service.fetch(address, { method: 'PUT', body: ROW })).status).toBe(200)
    const { body } = await graphql(
      'query Q($id: ID!) { artifact(id: $id) { files { edges { node { name directUrl } } } } }',
      { id },
    )
    const { artifact } = body.data as never as { artifact: { files: { edges: { node: { directUrl: string } }[] } } }
    const url = artifact.files.edges[0]?.node.directUrl ?? ''
    expect(await (await fetch(url)).text()).toBe(ROW)
  })
})

describe('runs', () => {
  const stream = (json: object) => service.fetch('/files/local/tests/run-1/file_stream', { json })
  const upsert = (input: object) =>
    mutate(
      'upsertBucket',
      { entityName: 'local', modelName: 'tests', name: 'run-1', ...input },
      'inserted bucket { name historyLineCount }',
    )

  it('keep what is logged once, however often it is sent', async () => {
    expect((await stream({ files: {} })).status).toBe(404)
    expect((await upsert({ displayName: 'm', config: '{"lr":{"value":1}}' })).data).toMatchObject({
      upsertBucket: { inserted: true },
    })
    const files = { 'wandb-history.jsonl': { offset: 0, content: ['{"x":1}', '{"x":2}'] } }
    expect((await stream({ files })).status).toBe(200)
    expect((await stream({ files, complete: true, exitcode: 1 })).status).toBe(200)
    expect((await upsert({})).data).toMatchObject({
      upsertBucket: { inserted: false, bucket: { historyLineCount: 2 } },
    })
    const runs = await service.json<{ data: { id: string; line_count: number }[] }>(`/v1/preview/models/${model}/runs`)
    expect(runs.body.data).toHaveLength(1)
    const id = runs.body.data[0]?.id ?? ''
    const first = await service.json<{ data: { id: string }[]; has_more: boolean }>(
      `/v1/preview/models/${model}/runs/${id}/history?limit=1`,
    )
    expect(first.body).toMatchObject({ data: [{ id: '0', metrics: { x: 1 } }], has_more: true })
    const rest = await service.json(`/v1/preview/models/${model}/runs/${id}/history?after=0`)
    expect(rest.body).toMatchObject({ data: [{ id: '1', metrics: { x: 2 } }], has_more: false })
    expect((await service.fetch(`/v1/preview/models/${model}/runs/${id}/history?after=x`)).status).toBe(422)
    expect((await service.fetch(`/v1/preview/models/${model}/runs/nope/history`)).status).toBe(404)
  })
  it.each([
    ['no object', { files: { 'wandb-history.jsonl': { offset: 0, content: ['3'] } } }, 400],
    ['no JSON', { files: { 'wandb-summary.json': { offset: 0, content: ['{'] } } }, 400],
    ['a negative place', { files: { 'wandb-history.jsonl': { offset: -1, content: [] } } }, 422],
  ])('refuse a line that is %s', async (_, body, status) => {
    expect((await stream(body)).status).toBe(status)
  })
})
