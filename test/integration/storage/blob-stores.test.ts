/**
 * Every store of blobs, by the same checks: files of a data directory, and buckets of two S3 servers.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AwsClient } from 'aws4fetch'
import type { Environment } from '#base/environment.js'
import { systemClock } from '#base/util/clock.js'
import { parseS3Address } from '#plugins/s3/s3-address.js'
import { openS3Blobs } from '#plugins/s3/s3-blobs.js'
import { createCredentialSource } from '#plugins/s3/s3-credentials.js'
import { createLocalBlobs } from '#service/storage/blobs/local-blobs.js'
import { S3_SERVERS } from '../../support/local-s3.js'
import { blobStoreConformance } from './conformance/blob-store.js'

blobStoreConformance('a folder', async () => {
  const root = await mkdtemp(join(tmpdir(), 'trainyard-blobs-'))
  await mkdir(join(root, 'sha256'))
  const store = await createLocalBlobs(root)
  return {
    store,
    damage: (sha256) => writeFile(store.pathOf(sha256), 'other bytes'),
    close: () => rm(root, { recursive: true, force: true }),
  }
})

/** The least that a store takes as a part. */
const PART_BYTES = 5 * 1024 ** 2

for (const kind of S3_SERVERS) {
  blobStoreConformance(
    `a bucket of ${kind.name}`,
    async () => {
      const root = await mkdtemp(join(tmpdir(), 'trainyard-blobs-'))
      const server = await kind.start()
      await server.makeBucket('blobs')
      const environment: Environment = { ...server.environment, AWS_ENDPOINT_URL_S3: server.endpoint }
      const store = await openS3Blobs({
        address: parseS3Address('s3://blobs/some/prefix', environment),
        credentials: createCredentialSource(environment),
        cachePath: join(root, 'cache'),
        clock: systemClock,
        random: Math.random,
        tuning: { partBytes: PART_BYTES },
      })
      const client = new AwsClient({
        accessKeyId: environment['AWS_ACCESS_KEY_ID'] ?? '',
        secretAccessKey: environment['AWS_SECRET_ACCESS_KEY'] ?? '',
        service: 's3',
        region: 'us-east-1',
      })
      return {
        store,
        damage: async (sha256) => {
          const key = `some/prefix/sha256/${sha256.slice(0, 2)}/${sha256.slice(2)}`
          await client.fetch(`${server.endpoint}/blobs/${key}`, { method: 'PUT', body: 'other bytes' })
        },
        close: async () => {
          await server.stop()
          await rm(root, { recursive: true, force: true })
        },
      }
    },
    { largeBytes: 2 * PART_BYTES + 12_345, isSkipped: !kind.isThere },
  )
}
