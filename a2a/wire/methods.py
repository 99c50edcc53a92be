"""The operations of A2A by their names in 1.0, which are what an agent may be asked for."""

SEND, STREAM = "SendMessage", "SendStreamingMessage"
GET, LIST, CANCEL, SUBSCRIBE = "GetTask", "ListTasks", "CancelTask", "SubscribeToTask"
PUSH_CREATE, PUSH_GET = "CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig"
PUSH_LIST, PUSH_DELETE = "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"
EXTENDED_CARD = "GetExtendedAgentCard"
ALL = (
    SEND, STREAM, GET, LIST, CANCEL, SUBSCRIBE, PUSH_CREATE, PUSH_GET, PUSH_LIST, PUSH_DELETE, EXTENDED_CARD,
)  # fmt: skip
STREAMS = frozenset({STREAM, SUBSCRIBE})
