/*
 * The part of HBase's Thrift2 gateway interface that the driver calls. Numbers, names and types are those of HBase 2.6;
 * fields and methods that we never use are left out, which the protocol allows.
 */

struct TColumn {
  1: required binary family
  2: optional binary qualifier
  3: optional i64 timestamp
}

struct TColumnValue {
  1: required binary family
  2: required binary qualifier
  3: required binary value
  4: optional i64 timestamp
}

struct TResult {
  1: optional binary row
  2: required list<TColumnValue> columnValues
}

struct TGet {
  1: required binary row
  2: optional list<TColumn> columns
}

struct TPut {
  1: required binary row
  2: required list<TColumnValue> columnValues
  5: optional map<binary, binary> attributes
  6: optional i32 durability
}

struct TDelete {
  1: required binary row
  2: optional list<TColumn> columns
  4: optional i32 deleteType
  7: optional i32 durability
}

union TMutation {
  1: TPut put
  2: TDelete deleteSingle
}

struct TRowMutations {
  1: required binary row
  2: required list<TMutation> mutations
}

struct TTimeRange {
  1: required i64 minStamp
  2: required i64 maxStamp
}

struct TScan {
  1: optional binary startRow
  2: optional binary stopRow
  3: optional list<TColumn> columns
  4: optional i32 caching
  6: optional TTimeRange timeRange
  7: optional string filterString
  12: optional bool cacheBlocks
  14: optional i32 readType
  15: optional i32 limit
}

struct TTableName {
  1: optional binary ns
  2: required binary qualifier
}

struct TColumnFamilyDescriptor {
  1: required binary name
  2: optional map<binary, binary> attributes
}

struct TTableDescriptor {
  1: required TTableName tableName
  2: optional list<TColumnFamilyDescriptor> columns
  3: optional map<binary, binary> attributes
}

struct TNamespaceDescriptor {
  1: required string name
}

struct TServerName {
  1: required string hostName
  2: optional i32 port
}

struct THRegionInfo {
  1: required i64 regionId
  2: required binary tableName
  3: optional binary startKey
  4: optional binary endKey
}

struct THRegionLocation {
  1: required TServerName serverName
  2: required THRegionInfo regionInfo
}

exception TIOError {
  1: optional string message
  2: optional bool canRetry
}

service THBaseService {
  TResult get(1: required binary table, 2: required TGet tget) throws (1: TIOError io)
  bool checkAndMutate(1: required binary table, 2: required binary row, 3: required binary family,
    4: required binary qualifier, 5: required i32 compareOp, 6: binary value, 7: required TRowMutations rowMutations)
    throws (1: TIOError io)
  list<TResult> getScannerResults(1: required binary table, 2: required TScan tscan, 3: i32 numRows = 1)
    throws (1: TIOError io)
  list<THRegionLocation> getAllRegionLocations(1: required binary table) throws (1: TIOError io)
  TTableDescriptor getTableDescriptor(1: required TTableName table) throws (1: TIOError io)
  bool tableExists(1: TTableName tableName) throws (1: TIOError io)
  bool isTableEnabled(1: TTableName tableName) throws (1: TIOError io)
  void createTable(1: TTableDescriptor desc, 2: list<binary> splitKeys) throws (1: TIOError io)
  void disableTable(1: TTableName tableName) throws (1: TIOError io)
  void deleteTable(1: TTableName tableName) throws (1: TIOError io)
  void createNamespace(1: TNamespaceDescriptor namespaceDesc) throws (1: TIOError io)
  list<string> listNamespaces() throws (1: TIOError io)
  string getClusterId()
}
