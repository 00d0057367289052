/**
 * Where the two uploaded files of an adapter from elsewhere lie. Reads none of their bytes.
 */
import { NotFoundError } from '#base/errors/errors.js'
import type { CreateModelRequest } from '#contract/wire/models.js'
import { findFile } from '#service/storage/files.js'
import type { Principal, ServiceContext } from '../context.js'

/** @throws {NotFoundError} `file_not_found` */
export async function findAdapterFiles(
  { db, blobs }: Pick<ServiceContext, 'db' | 'blobs'>,
  principal: Principal,
  adapter: NonNullable<CreateModelRequest['from_adapter']>,
): Promise<{ readonly configPath: string; readonly weightsPath: string }> {
  const path = async (id: string, param: string): Promise<string> => {
    const file = await findFile(db, principal, { id })
    if (file !== null) return blobs.localFile(file.sha256)
    throw new NotFoundError('file_not_found', `file "${id.slice(0, 100)}" was not found`, {
      param: `from_adapter.${param}`,
      hint: 'upload both files with POST /v1/files first',
    })
  }
  return {
    configPath: await path(adapter.adapter_config, 'adapter_config'),
    weightsPath: await path(adapter.adapter_model, 'adapter_model'),
  }
}
