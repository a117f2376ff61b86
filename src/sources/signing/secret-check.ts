const PLACEHOLDERS = new Set(
  (
    'secret mysecret thesecret webhooksecret signingsecret sharedsecret clientsecret token password passwd pass key apikey ' +
    'changeme changethis changeit replaceme replacethis placeholder example sample dummy default todo tbd none null undefined ' +
    'nan false true test testing foo bar foobar abc abc123 123456 12345678 1234567890 redacted insert fillme objectobject'
  ).split(' '),
);

/**
 * Says why a secret cannot be right, or undefined: empty, blank, surrounded by white space, or what a template left there.
 * `createHmac('sha256', '')` works, so an unset variable would let everyone in.
 */
export function checkSecretText(secret: string): string | undefined {
  if (secret === '') return 'is empty: the variable it comes from is probably not set';
  if (secret.trim() === '') return 'is blank';
  if (secret.trim() !== secret) return 'has white space around it, as a copied line break does';
  if (isPlaceholder(secret)) return 'is a placeholder: put the secret that the vendor shows in its place';
  return undefined;
}

function isPlaceholder(secret: string): boolean {
  if (/^[<{[(].*[>}\])]$/.test(secret) || /^\$\{?\w+\}?$/.test(secret) || /^%\w+%$/.test(secret)) return true;
  const bare = secret.toLowerCase().replace(/^(?:whsec|sk|pk|rk)_(?:(?:test|live)_)?/, '');
  if (
    /^(?:your|my|the|insert|enter|paste|replace|add)(?:[-_ ]+[a-z0-9]+){0,4}[-_ ]+(?:secret|key|token|here)$/.test(
      bare,
    )
  )
    return true;
  const letters = bare.replace(/[^a-z0-9]/g, '');
  return letters === '' || PLACEHOLDERS.has(letters) || /^(.)\1*$/.test(letters);
}
