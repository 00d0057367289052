/**
 * An address of a bucket → what opens it, with the keys of this process's environment.
 */
import type { Environment } from '#base/environment.js'
import { systemClock } from '#base/util/clock.js'
import { createRng, randomSeed } from '#base/util/rng.js'
import type { BlobStoreAddress } from '#service/storage/blobs/remote-blobs.js'
import { parseS3Address } from './s3-address.js'
import { openS3Blobs } from './s3-blobs.js'
import { createCredentialSource } from './s3-credentials.js'

/** @throws {InvalidRequestError} `invalid_setting` */
export async function readBlobStoreAddress(text: string, environment: Environment): Promise<BlobStoreAddress> {
  const address = parseS3Address(text, environment)
  const rng = createRng(randomSeed())
  return {
    name: address.name,
    open: ({ tuning, ...options }) =>
      openS3Blobs({
        ...{ address, credentials: createCredentialSource(environment), clock: systemClock, ...options },
        random: () => rng.uniform(),
        tuning: tuning ?? {},
      }),
  }
}
