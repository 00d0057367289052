/**
 * Rows of a Parquet table, one row group after the other: lists and structs as JSON, numbers that JSON has exactly, times as ISO
 * 8601, classes of the datasets library by their names. What reads the format is loaded when the first such file comes.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

/** Reads a whole table. @throws what hyparquet throws for a file that is cut or damaged */
export async function* readParquet(data: Blob): AsyncGenerator<JsonObject> {
  const [{ parquetMetadataAsync, parquetReadObjects }, { compressors }] = await Promise.all([
    import('hyparquet'),
    import('hyparquet-compressors'),
  ])
  const file = {
    byteLength: data.size,
    slice: (start: number, end?: number) => data.slice(start, end).arrayBuffer(),
  }
  const metadata = await parquetMetadataAsync(file)
  const classes = classNames(metadata.key_value_metadata ?? [])
  let rowStart = 0
  for (const group of metadata.row_groups) {
    const rowEnd = rowStart + Number(group.num_rows)
    for (const row of await parquetReadObjects({ file, metadata, rowStart, rowEnd, compressors })) {
      const plain = toJson(row) as JsonObject
      yield classes.size === 0 ? plain : named(plain, classes)
    }
    rowStart = rowEnd
  }
}

function toJson(value: unknown): JsonValue {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (ArrayBuffer.isView(value)) return Object.values(value).map(toJson)
  if (Array.isArray(value)) return value.map(toJson)
  if (typeof value !== 'object' || value === null) return (value ?? null) as JsonValue
  // fields of a struct that this row lacks are null
  const present = Object.entries(value).filter(([, field]) => field !== null && field !== undefined)
  return Object.fromEntries(present.map(([name, field]) => [name, toJson(field)]))
}

/** Names of classes by column, as the datasets library keeps them beside the schema (`ClassLabel`). */
function classNames(
  metadata: readonly { readonly key: string; readonly value?: string | undefined }[],
): ReadonlyMap<string, readonly string[]> {
  const text = metadata.find(({ key }) => key === 'huggingface')?.value
  const names = new Map<string, readonly string[]>()
  try {
    const features: unknown = JSON.parse(text ?? 'null')?.info?.features
    if (!isJsonObject(features)) return names
    for (const [column, feature] of Object.entries(features)) {
      const list = isJsonObject(feature) && feature['_type'] === 'ClassLabel' ? feature['names'] : null
      if (Array.isArray(list)) names.set(column, list.map(String))
    }
  } catch {
    // a table is read without what another program keeps beside it
  }
  return names
}

function named(row: JsonObject, classes: ReadonlyMap<string, readonly string[]>): JsonObject {
  const entries = Object.entries(row).map(([column, value]) => [
    column,
    (typeof value === 'number' ? classes.get(column)?.[value] : undefined) ?? value,
  ])
  return Object.fromEntries(entries)
}
