/** The text of an answer, when it has so many bytes at most. @throws {Error} for more */
export async function readBounded(response: Response, most: number): Promise<string> {
  const decoder = new TextDecoder()
  let [text, bytes] = ['', 0]
  for await (const part of response.body ?? []) {
    const chunk = part as Uint8Array
    bytes += chunk.byteLength
    if (bytes > most) throw new Error(`an answer of more than ${most} bytes`)
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}
