CREATE TABLE retrysafe_schema (
    version integer NOT NULL
);

INSERT INTO retrysafe_schema (version) VALUES (1);

-- Fences of both kinds of store. Without a cache, so that they rise across
-- sessions too.
CREATE SEQUENCE retrysafe_fences AS bigint CACHE 1;

-- What transactional stores have recorded. A row is written by the transaction
-- whose effects it stands for. The ID is first in the key because it is what
-- tells rows apart, and because IDs that rise with time, as UUIDv7 does, then
-- append to the index.
CREATE TABLE retrysafe_outcomes (
    id                  bytea NOT NULL,
    method              bytea NOT NULL,
    scope               bytea NOT NULL,
    fingerprint_version smallint NOT NULL,
    fingerprint         bytea NOT NULL,
    fence               bigint NOT NULL,
    record              bytea NOT NULL,
    completed_at        timestamptz NOT NULL,
    expires_at          timestamptz NOT NULL,
    PRIMARY KEY (id, method, scope)
);

CREATE INDEX retrysafe_outcomes_expires_at ON retrysafe_outcomes (expires_at);

-- Claims and outcomes of leased stores. state: 1 claimed, 2 completed, 3
-- released. waited: somebody wants to be notified when the claim ends.
CREATE TABLE retrysafe_leases (
    id                  bytea NOT NULL,
    method              bytea NOT NULL,
    scope               bytea NOT NULL,
    fingerprint_version smallint NOT NULL,
    fingerprint         bytea NOT NULL,
    owner               bytea NOT NULL,
    fence               bigint NOT NULL,
    attempt             integer NOT NULL,
    state               smallint NOT NULL,
    waited              boolean NOT NULL,
    lease_until         timestamptz NOT NULL,
    record              bytea,
    completed_at        timestamptz,
    expires_at          timestamptz NOT NULL,
    PRIMARY KEY (id, method, scope)
);

CREATE INDEX retrysafe_leases_expires_at ON retrysafe_leases (expires_at);

-- Ends a transaction whose operation is held or recorded by another.
CREATE FUNCTION retrysafe_refuse() RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'RS001', MESSAGE = 'retrysafe: the operation is held or recorded';
END
$$;

-- Ends a batch whose query for its own record found none.
CREATE FUNCTION retrysafe_no_record() RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'RS002', MESSAGE = 'retrysafe: the query for the record returned none';
END
$$;
