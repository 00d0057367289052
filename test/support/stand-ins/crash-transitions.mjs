/**
 * Further transitions for `crash-at-write.mjs`: what clients store through W&B's API, what is counted, cleaned up and sent beside
 * the requests, and what is made of whole files.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile, rm, utimes } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { prepareBaseModel } from '../../../dist/src/model/architectures/prepare.js'
import { ensureTinyRandomModel } from '../../../dist/src/model/built-in/tiny-random.js'
import { createBackup, restoreBackup } from '../../../dist/src/plugins/backup/data-directory.js'
import { createLocalKey } from '../../../dist/src/plugins/data-directory.js'
import { createWandbService } from '../../../dist/src/plugins/wandb/wandb.js'
import { createOutbox } from '../../../dist/src/plugins/webhooks/outbox.js'
import { createWebhookRules } from '../../../dist/src/plugins/webhooks/start.js'
import { DEFAULT_OUTBOX_TIMING } from '../../../dist/src/plugins/webhooks/timing.js'
import { ensureApiKey } from '../../../dist/src/service/operations/access/local-keys.js'
import { createUsageService } from '../../../dist/src/service/operations/access/usage.js'
import { createBlobSweeper } from '../../../dist/src/service/operations/blob-sweeper.js'
import { expireLeases } from '../../../dist/src/service/queue/recovery.js'
import { extendRun, startRun } from '../../../dist/src/service/storage/upkeep/unnamed-blobs.js'

const md5 = (text) => createHash('md5').update(text).digest('base64')

/** Names and digests of all files below a folder. */
export async function digestsBelow(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const digests = {}
  for (const file of files.sort()) {
    digests[file.slice(folder.length + 1)] = createHash('sha256')
      .update(await readFile(file))
      .digest('hex')
  }
  return digests
}

/** @param tools what the transitions of `crash-at-write.mjs` are made of */
export function moreTransitions({ context, principal, dataDir, root, prepare, listenAt, collect, models, uploadRows }) {
  const { db, blobs, ids, logger } = context
  const wandb = createWandbService(context)

  async function graphql(query, variables = {}) {
    const { data, errors } = await wandb.graphql(principal, { query, variables }, 'http://127.0.0.1')
    if (errors !== undefined) throw new Error(JSON.stringify(errors))
    return data
  }
  const mutate = async (name, input, selection) =>
    (await graphql(`mutation M($input: I!) { ${name}(input: $input) { ${selection} } }`, { input }))[name]
  const tokenOf = (url) => new URL(url).searchParams.get('token')
  const putBytes = async (token, bytes) => wandb.put(await wandb.verify(token), bytes)
  const named = (alias) => ({ alias, artifactCollectionName: 'rows' })
  const artifact = {
    entityName: 'local',
    projectName: 'p',
    artifactCollectionName: 'rows',
    artifactTypeName: 'dataset',
    digest: 'd',
    metadata: '{"a":1}',
    aliases: [named('best'), named('new')],
  }
  const createArtifact = async (more = {}) =>
    (await mutate('createArtifact', { ...artifact, ...more }, 'artifact { id }')).artifact.id
  async function fileToken(id) {
    const wanted = { artifactFiles: [{ artifactID: id, name: 'rows.jsonl', md5: md5('rows') }] }
    const { files } = await mutate('createArtifactFiles', wanted, 'files { edges { node { uploadUrl } } }')
    return tokenOf(files.edges[0].node.uploadUrl)
  }
  async function manifestToken(id) {
    const input = { artifactID: id, digest: '' }
    const { artifactManifest } = await mutate(
      'createArtifactManifest',
      input,
      'artifactManifest { file { uploadUrl } }',
    )
    return tokenOf(artifactManifest.file.uploadUrl)
  }
  const contents = { 'rows.jsonl': { digest: md5('rows'), size: 4 } }
  const manifest = JSON.stringify({ version: 1, storagePolicy: 'wandb-storage-policy-v1', contents })
  async function uploaded() {
    const id = await createArtifact()
    await putBytes(await fileToken(id), [Buffer.from('rows')])
    await putBytes(await manifestToken(id), [Buffer.from(manifest)])
    return id
  }
  const commit = (id) => mutate('commitArtifact', { artifactID: id }, 'artifact { id }')
  const upsert = (more) =>
    mutate('upsertBucket', { entityName: 'local', modelName: 'p', name: 'run', ...more }, 'bucket { id } inserted')
  const lines = { 'wandb-history.jsonl': { offset: 0, content: ['{"_step":0,"loss":2}', '{"_step":1,"loss":1}'] } }
  const address = { entity: 'local', project: 'p', run: 'run' }

  async function* generated() {
    yield { type: 'started', promptTokenIds: [1, 2, 3], cachedTokens: 1 }
    yield { type: 'delta', tokenIds: [4, 5] }
  }

  /** Something to save, unless a crashed run has made it. @returns whether it was made now */
  async function prepareOnce() {
    if ((await db.selectFrom('models').select('id').execute()).length > 0) return false
    await prepare()
    await uploadRows('rows', 'fine-tune')
    return true
  }

  return {
    'create W&B run': () => () => upsert({ config: '{"lr":1}', tags: ['a'] }),
    'log lines of a W&B run': async () => {
      await upsert({})
      const summary = { 'wandb-summary.json': { offset: 0, content: ['{"loss":1}'] } }
      return () => wandb.stream(principal, address, { files: { ...lines, ...summary }, complete: true, exitcode: 0 })
    },
    'upload a file of a W&B run': async () => {
      await upsert({})
      const input = { entityName: 'local', projectName: 'p', runName: 'run', files: ['output.log'] }
      const { files } = await mutate('createRunFiles', input, 'files { uploadUrl }')
      return () => putBytes(tokenOf(files[0].uploadUrl), [Buffer.from('said')])
    },
    'create W&B artifact': async () => {
      await graphql('{viewer{entity}}')
      return () => createArtifact()
    },
    'upload a file of a W&B artifact': async () => {
      const token = await fileToken(await createArtifact())
      return () => putBytes(token, [Buffer.from('rows')])
    },
    'upload the manifest of a W&B artifact': async () => {
      const token = await manifestToken(await createArtifact())
      return () => putBytes(token, [Buffer.from(manifest)])
    },
    'commit W&B artifact': async () => {
      const id = await uploaded()
      return () => commit(id)
    },
    'commit the next version of a W&B artifact': async () => {
      await commit(await uploaded())
      const id = await createArtifact({ digest: 'e' })
      await putBytes(await fileToken(id), [Buffer.from('rows')])
      await putBytes(await manifestToken(id), [Buffer.from(manifest)])
      return () => commit(id)
    },
    'name a W&B artifact': async () => {
      const id = await uploaded()
      await commit(id)
      return () => mutate('addAliases', { artifactID: id, aliases: [named('a'), named('b')] }, 'success')
    },
    'create the same W&B artifact again': async () => {
      await commit(await uploaded())
      return () => createArtifact({ aliases: [named('c'), named('d')] })
    },
    'delete W&B artifact': async () => {
      const id = await uploaded()
      await commit(id)
      return () => mutate('deleteArtifact', { artifactID: id }, 'artifact { id }')
    },
    'write usage': async () => {
      const usage = createUsageService(db, logger)
      const { id } = await models.create(principal, { project: 'p', name: 'm', base_model: 'base' }, null)
      const keys = [id, 'another'].map((model) => ({ entity: 'local', project: 'p', model }))
      for (const key of keys) for await (const _ of usage.count(generated(), key));
      return () => usage.flush()
    },
    'sweep blobs': async () => {
      await prepare()
      const old = new Date(Date.now() - 3_600_000)
      for (const text of ['one', 'two', 'three']) {
        const { sha256 } = await blobs.put([Buffer.from(text)])
        await utimes(blobs.pathOf(sha256), old, old)
      }
      // a server worked here then, and a sweep has seen them
      await extendRun(db, await startRun(db, 0, 0), Date.now())
      const sweeper = createBlobSweeper({ db, blobs, clock: context.clock, logger, graceMs: 0 })
      await sweeper.sweep()
      return async () => {
        await sweeper.sweep()
        return (await sweeper.sweep()).waiting
      }
    },
    'expire leases': async () => {
      await prepare({ leaseMs: -1000 })
      return () => expireLeases(db, ids, { alive: [], leaseMs: 1000 })
    },
    'deliver to a webhook': async () => {
      const receiver = createServer((request, response) => {
        request.resume().once('end', () => response.end())
      })
      await new Promise((done) => receiver.listen(0, '127.0.0.1', done))
      receiver.unref()
      const host = `127.0.0.1:${receiver.address().port}`
      const rules = createWebhookRules([host])
      await listenAt(`http://${host}/hook`, rules)
      await prepare()
      await collect()
      const timing = { ...DEFAULT_OUTBOX_TIMING, pollMs: 3_600_000 }
      const outbox = createOutbox({ ...context, rules, version: '0', timing })
      return async () => {
        outbox.wake()
        for (;;) {
          const rows = await db.selectFrom('webhook_deliveries').select('status').execute()
          if (rows.every(({ status }) => status === 'delivered')) break
          await new Promise((done) => setTimeout(done, 5))
        }
        await outbox.stop()
        receiver.closeAllConnections()
        receiver.close()
      }
    },
    'make the first key': () => () => ensureApiKey(db, dataDir, ids),
    'make a key where the data lies': async () => {
      await ensureApiKey(db, dataDir, ids)
      await rm(dataDir.apiKeyPath)
      return () => createLocalKey(root)
    },
    'prepare a base model': async () => {
      const source = await ensureTinyRandomModel(dataDir.baseModelsPath)
      return async () => {
        await prepareBaseModel(source, dataDir.preparedPath, ['int8'])
        return digestsBelow(dataDir.preparedPath)
      }
    },
    'write a built-in model': () => async () => digestsBelow(await ensureTinyRandomModel(dataDir.baseModelsPath)),
    'make a backup': async () => {
      await prepareOnce()
      return async () => {
        const file = join(root, 'backup.tar')
        const { blobs, bytes, damaged } = await createBackup(root, file, { isReplacing: true })
        return { blobs, bytes, damaged }
      }
    },
    'restore a backup': async () => {
      const file = join(root, 'backup.tar')
      if (await prepareOnce()) await createBackup(root, file)
      return async () => {
        const { blobs, bytes, damaged } = await restoreBackup(file, join(root, 'restored'))
        const files = Object.entries(await digestsBelow(join(root, 'restored/blobs')))
        const whole = files.filter(([name, sha256]) => name.replace(/^sha256|\//g, '').replaceAll('/', '') === sha256)
        return { blobs, bytes, damaged, files: files.length, whole: whole.length }
      }
    },
  }
}
