import { createHash, timingSafeEqual } from 'node:crypto';
import { UnauthorizedException, type CanActivate, type ExecutionContext } from '@nestjs/common';

const REALM = 'Basic realm="webhooks", charset="UTF-8"';

/** Asks for a password, as browsers do by themselves. Your application has a guard of its own: that is the one to give. */
export class PasswordGuard implements CanActivate {
  constructor(private readonly password: string) {}

  canActivate(context: ExecutionContext): boolean {
    const http = context.switchToHttp();
    const request = http.getRequest<{ headers: { authorization?: string }; user?: { name: string } }>();
    const [scheme = '', encoded = ''] = (request.headers.authorization ?? '').split(' ', 2);
    const [name = '', ...rest] = Buffer.from(encoded, 'base64').toString().split(':');
    if (scheme.toLowerCase() === 'basic' && isSame(rest.join(':'), this.password)) {
      request.user = { name: name || 'operator' };
      return true;
    }
    http.getResponse<{ header(name: string, value: string): void }>().header('www-authenticate', REALM);
    throw new UnauthorizedException();
  }
}

function isSame(a: string, b: string): boolean {
  const [digestA, digestB] = [a, b].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(digestA!, digestB!);
}
