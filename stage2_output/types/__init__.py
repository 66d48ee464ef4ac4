"""Use pydantic types as schemas, and convert values to the types of a schema.

The controller imports this room when a type or `coerce=True` is first used. Modules:
    pydantic_errors  convert pydantic's errors to issues
    unions           detect values that pydantic would take exponential time to read
    typed_schema     a pydantic model or another type as a schema
    conversions      exact conversions of one value to another type
    coercion         apply the conversions to a value and its parts
"""
