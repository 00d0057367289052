/**
 * Addresses of blob stores: what they mean, and what is refused without repeating what may be a key.
 */
import { describe, expect, it } from 'vitest'
import { parseS3Address } from '#plugins/s3/s3-address.js'

const GB = 1024 ** 3

describe('the address of a blob store', () => {
  it('without more than a bucket is AWS by the host name', () => {
    expect(parseS3Address('s3://my-bucket', {})).toMatchObject({
      bucket: 'my-bucket',
      prefix: '',
      style: 'host',
      region: 'us-east-1',
      cacheBytes: 10 * GB,
      name: 's3://my-bucket',
      endpoint: new URL('https://s3.us-east-1.amazonaws.com'),
    })
  })

  it('takes endpoint and region from the environment, and its own words first', () => {
    const environment = { AWS_ENDPOINT_URL_S3: 'http://10.0.0.1:8333', AWS_REGION: 'eu-west-1' }
    expect(parseS3Address('s3://b-1/a/b/', environment)).toMatchObject({
      prefix: 'a/b/',
      style: 'path',
      region: 'eu-west-1',
      name: 's3://b-1/a/b?endpoint=http://10.0.0.1:8333',
    })
    const given = 's3://b-1/a?endpoint=https://store.example&style=host&region=auto&cache=2GB'
    expect(parseS3Address(given, environment)).toMatchObject({
      style: 'host',
      region: 'auto',
      cacheBytes: 2 * GB,
      name: 's3://b-1/a?endpoint=https://store.example',
    })
  })

  it('of a bucket with dots, which no certificate fits, is by the path', () => {
    expect(parseS3Address('s3://my.bucket', {})).toMatchObject({ style: 'path' })
  })

  it.each([
    ['/var/blobs', /must be an address like s3:/],
    ['https://bucket', /must be an address like s3:/],
    ['s3://', /must be an address|no bucket name/],
    ['s3://key:secret@bucket/p', /must not hold keys/],
    ['s3://UPPER_case', /no bucket name/],
    ['s3://bucket/a//b', /has prefix/],
    ['s3://bucket/a%20b', /has prefix/],
    ['s3://bucket?endpoint=ftp://host', /needs an endpoint/],
    ['s3://bucket?endpoint=https://key:secret@host', /needs an endpoint/],
    ['s3://bucket?endpoint=https://host/path', /needs an endpoint/],
    ['s3://bucket?style=virtual', /takes style path or host, got "virtual"/],
    ['s3://bucket?region=EU', /has region/],
    ['s3://bucket?cache=1KB', /at least 64MB/],
    ['s3://bucket?cache=1MB', /at least 64MB/],
    ['s3://bucket?acl=public', /takes endpoint, style, region, cache, direct, got "acl"/],
    ['s3://bucket?direct=yes', /takes direct true or false, got "yes"/],
    ['s3://bucket?style=path&style=host', /names style twice/],
  ])('%s is refused', (text, words) => {
    let said: unknown
    try {
      parseS3Address(text, {})
    } catch (error) {
      said = error
    }
    expect(said).toMatchObject({ code: 'invalid_setting', param: 'blob-store', message: expect.stringMatching(words) })
    expect(String(said)).not.toContain('secret')
  })
})
