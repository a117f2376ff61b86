import { SetMetadata } from '@nestjs/common';

/**
 * Keeps a controller of this package out of the application's OpenAPI document, as `@ApiExcludeController()` of @nestjs/swagger does:
 * by its metadata key, so that the package need not be there. An application shows it with `ApiExcludeController(false)`.
 */
export const NotInOpenApi = (): ClassDecorator => SetMetadata('swagger/apiExcludeController', [true]);
