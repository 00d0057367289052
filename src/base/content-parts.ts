/**
 * Parts of a message's content by their `type`: those that are text, and media, which models here do not read.
 *
 * One list for the wire and for templates, which know nothing of each other. Names are those of OpenAI's two formats (chat,
 * Responses), of vLLM (v0.17), and `image`, `audio` and `video` of Hugging Face's chat templates.
 */

/** The field of a part that holds its text. */
export const TEXT_PART_FIELDS = {
  text: 'text',
  input_text: 'text',
  output_text: 'text',
  refusal: 'refusal',
  thinking: 'thinking',
} as const

/** Media by the names of its parts: refused, since models read text. */
export const MEDIA_PARTS = [
  'image_url',
  'input_image',
  'audio_url',
  'input_audio',
  'video_url',
  'image_embeds',
  'audio_embeds',
  'image_pil',
  'image',
  'audio',
  'video',
  'file',
  'input_file',
] as const
