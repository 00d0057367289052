/**
 * Rows of what is answered of a batch: which lines, and the blobs with their answers.
 */
import type { Database } from '#service/storage/database.js'
import { batchTables } from './tables.js'

interface PieceRecord {
  readonly lines: string
  readonly outputSha256: string | null
  readonly errorSha256: string | null
}

export async function insertPiece(db: Database, batchId: string, id: string, piece: PieceRecord): Promise<void> {
  await batchTables(db)
    .insertInto('batch_pieces')
    .values({
      batch_id: batchId,
      id,
      lines: piece.lines,
      output_sha256: piece.outputSha256,
      error_sha256: piece.errorSha256,
    })
    .execute()
}

/** In the order in which they were written. */
export async function listPieces(db: Database, batchId: string): Promise<readonly PieceRecord[]> {
  const rows = await batchTables(db)
    .selectFrom('batch_pieces')
    .selectAll()
    .where('batch_id', '=', batchId)
    .orderBy('id')
    .execute()
  return rows.map((row) => ({ lines: row.lines, outputSha256: row.output_sha256, errorSha256: row.error_sha256 }))
}

export async function deletePieces(db: Database, batchId: string): Promise<void> {
  await batchTables(db).deleteFrom('batch_pieces').where('batch_id', '=', batchId).execute()
}
