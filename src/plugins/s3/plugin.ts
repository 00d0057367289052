/**
 * Blobs as objects of a bucket, of AWS or of any other store that speaks S3.
 */
import { definePlugin } from '#service/define-plugin.js'

export const s3 = definePlugin({
  name: 's3',
  blobStores: [
    {
      schemes: ['s3'],
      example: 's3://bucket/prefix?endpoint=https://host&style=path',
      read: async (...asked) => (await import('./s3-blobs.js')).readBlobStoreAddress(...asked),
    },
  ],
})
