/**
 * The manifest of an artifact, which is stored as a file before it is read.
 */
import type { StoredBody } from '#service/bodies/bodies.js'
import { artifactManifestSchema } from './wire.js'

/** An object a file, each with an entry of the map: clients that train send a handful of files. */
export const ARTIFACT_MANIFEST: StoredBody<typeof artifactManifestSchema> = {
  name: 'artifact manifest',
  schema: artifactManifestSchema,
  size: 'chatBytes',
  reader: { maxContainers: 25_000, maxValues: 200_000, maxKeys: 20_000 },
}
