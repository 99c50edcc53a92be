"""What the official A2A SDK makes of 0.3's shapes: each line of stdin is one, and is printed in 1.0's shape.

{"json": …} is of 0.3's JSON-RPC, {"rest": …} of its REST.
"""

import json
import sys
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2, conversions, proto_utils, types
from google.protobuf.json_format import MessageToDict, ParseDict


def read(said: dict[str, Any]) -> Any:
    if "json" in said:
        # The union of what a stream may tell, which the SDK's own reader goes by.
        result = types.SendStreamingMessageSuccessResponse.model_validate(
            {"jsonrpc": "2.0", "id": 1, "result": said["json"]}
        )
    else:
        message = ParseDict(said["rest"], a2a_v0_3_pb2.StreamResponse())
        result = types.SendStreamingMessageSuccessResponse(result=proto_utils.FromProto.stream_response(message))
    return MessageToDict(conversions.to_core_stream_response(result))


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(read(json.loads(line))))
