/**
 * Blobs that are kept at an address: what the core asks of a store there besides what it asks of any. Plugins open them.
 */
import type { AddressKind } from '../addresses.js'
import type { BlobRef, BlobStore } from '../blobs.js'

export interface RemoteBlobs extends BlobStore {
  /** Where the blobs are, for people and for the database: {@link BlobStoreAddress.name}. */
  readonly name: string
  /** Sends a file, which stays where it is; its bytes are known to have that digest. */
  putFile(path: string, ref: BlobRef): Promise<void>
  /** Writes a blob's bytes, checked, to a path, and keeps no copy of its own. @throws as `localFile` */
  fetchFile(sha256: string, path: string): Promise<BlobRef>
  /** Which database the blobs belong to; null where none has said so. */
  readOwner(): Promise<string | null>
  /** @param options.isNew do nothing where there is an owner. Default: take over. @returns whether it is the owner now */
  writeOwner(id: string, options?: { readonly isNew?: boolean }): Promise<boolean>
}

/** Does what no other server may do with the same blob meanwhile. */
export type BlobGuard = <T>(sha256: string, action: () => Promise<T>) => Promise<T>

interface RemoteBlobsOptions {
  /** Folder of copies on this machine. */
  readonly cachePath: string
  /** Default: there is no other server. */
  readonly guard?: BlobGuard | undefined
  /** Times and sizes that only tests change; the store knows which. */
  readonly tuning?: object | undefined
}

/** An address that was read. */
export interface BlobStoreAddress {
  /** What people are told, and what the database remembers: no secret, and the same for two addresses of one place. */
  readonly name: string
  /** Opens the store; asks nothing of it yet. */
  open(options: RemoteBlobsOptions): Promise<RemoteBlobs>
}

export type BlobStoreKind = AddressKind<BlobStoreAddress>
