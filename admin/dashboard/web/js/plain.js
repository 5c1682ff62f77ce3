// Texts that strangers chose, so that what is read is what is there: a character that cannot be seen, or that turns
// the direction of those beside it, is shown by its number. Line breaks and tabs stay.
const unseen = /[^\n\t\P{C}]|[\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

export const plain = (text) => String(text).replace(unseen, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
